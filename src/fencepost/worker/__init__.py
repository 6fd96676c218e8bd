"""Supervises connectors, slots and tasks on this worker, and answers its REST requests.

Core types: `WorkerProcess` (everything in one process), `TaskSupervisor` (what should run against what runs),
`ConnectorHost`, `SlotPool` and `DataFrameHost` (the two doors), `ChannelServer`, `Admissions` (DESIGN 2, steps 6, 7).
"""
