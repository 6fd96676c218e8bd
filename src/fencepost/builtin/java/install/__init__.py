"""Puts Java plug-ins into a directory of `plugin.path`: from a Maven repository, or from the archives of their authors.

Each is a directory of its own, with a manifest that says where it is from and the checksum of each file. A directory
appears when it is complete, and not before; a worker reads it when it starts.
"""
