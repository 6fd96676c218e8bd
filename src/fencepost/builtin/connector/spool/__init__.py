"""The files of a directory as records, each file a split: which files are due, and what happens to them afterwards."""
