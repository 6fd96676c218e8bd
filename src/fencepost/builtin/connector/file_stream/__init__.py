"""The lines of a growing file as records, and records as the lines of a file."""
