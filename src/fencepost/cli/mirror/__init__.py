"""`fencepost mirror`: runs the flows of a MirrorMaker 2 file, shows their progress, and changes their type."""
