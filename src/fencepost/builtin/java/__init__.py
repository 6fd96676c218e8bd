"""Java plug-ins in a JVM of their own, the host: a child process that is spoken to over sockets.

`port` is what the rest of Fencepost sees; `start.start_host` makes a real one. A process that runs no Java plug-in
imports nothing of this.
"""
