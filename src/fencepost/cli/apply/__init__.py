"""`fencepost apply`: makes connectors what files say."""
