"""What should run on this worker against what runs: connectors, starts of tasks, their statuses.

`port.py` is what it asks of the hosts that run tasks; nothing here knows Spark.
"""
