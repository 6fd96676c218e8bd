"""Batches of records as bytes, and bytes as records."""
