"""A MirrorMaker 2 file: its flows, and how a flow changes its type."""
