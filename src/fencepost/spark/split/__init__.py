"""Splits: bounded pieces of a DataFrame source, each one transaction."""
