"""Epochs: ranges of offsets as DataFrames, what is written of them, and their dead letters."""
