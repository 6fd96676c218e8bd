"""`fencepost offsets`: shows and moves the offsets of connectors."""
