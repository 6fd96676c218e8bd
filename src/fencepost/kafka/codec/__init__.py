"""Encodes records as batches, and decodes batches to records."""
