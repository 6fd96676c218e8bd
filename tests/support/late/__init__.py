"""Requests that arrive too late: a task in this process, a proxy before the broker, and what comes of it.

Core types: `Attempt` (one fault, drawn from a seed) and `plan`, `Lateness` (withholds the request and delivers it in a
later transaction), `LoneTask` (the runner of a real task) and `GroupTask` (positions in a consumer group, KIP-447).
"""
