"""The two hosts that run tasks on Spark: slots, and splits of DataFrames.

Both are a `TaskHost` (`supervision/port.py`).
"""
