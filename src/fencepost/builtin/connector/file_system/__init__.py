"""Directories and files, as Spark sees them and as this machine does."""
