"""Compares what should run on this worker with what runs: connectors, starts of tasks, their statuses.

`port.py` is what it needs of the hosts that run tasks; nothing here knows Spark.
"""
