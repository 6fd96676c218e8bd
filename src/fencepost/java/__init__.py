"""Java plug-ins in a JVM of their own, the host: a child process that is spoken to over sockets.

`port` is what the rest of Fencepost sees; `start_host` in `fencepost.java.start` makes a real one. Nothing here is
imported by a process that runs no Java plug-in.
"""
