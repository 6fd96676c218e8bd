"""Epochs: ranges of offsets as DataFrames, the output written for them, and their dead letters."""
