"""Transforms and converters of a task: found by name, applied to columns, and divided between processes."""
