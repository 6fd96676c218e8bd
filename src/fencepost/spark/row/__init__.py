"""Rows of a DataFrame as records, and records as rows: Arrow columns, JSON, CSV, schemas."""
