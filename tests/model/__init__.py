"""A model of writer, lanes, coordinator and network, small enough to visit every state.

A streaming query has a smaller model of its own, in `query`.

Core types: `Broker` (the older transaction protocol), `Plan` (a task and the `Rules` that it keeps), `World` (both, and
a network that delays, repeats and loses), `search` (breadth first, so that what it finds is the shortest trace).
"""
