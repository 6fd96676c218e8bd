"""What runs on executors: slots, task loops, boundaries, retries, and the channel to the worker.

Core types: `TaskSpec` (all that a slot needs to run a task), `Slot` (one process, many task threads), `TaskRunner`
(start-up order of DESIGN 2 for one task), `SourceLoop`, `Boundary`, `ChannelClient`. Light imports, no PySpark.
Keeps E1, E3, E5, E6, E7.
"""
