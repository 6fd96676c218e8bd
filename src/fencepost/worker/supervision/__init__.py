"""Compares what should run on this worker with what runs: a room each for connectors, tasks and their offsets.

`port.py` is what it needs of the hosts that run tasks; nothing here knows Spark.
"""
