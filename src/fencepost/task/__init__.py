"""What runs on executors: slots, task loops, delivery, retries, and the channel to the worker.

Core types: `TaskSpec` (all that a slot needs to run a task), `Slot` (one process, many task threads), `SourceRunner`
(how a task starts, in docs/architecture.md), `SourceLoop`, `Boundary`, `ChannelClient`. Light imports, no PySpark.
Keeps E1, E3, E5, E6, E7. Its rooms: decision 0070.
"""
