"""The source: a snapshot in chunks, then the stream of changes, whole transactions at a time."""
