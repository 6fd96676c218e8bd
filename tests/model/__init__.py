"""A model of writer, lanes, coordinator and network, small enough to visit every state.

Core types: `Broker` (the older transaction protocol), `Plan` (a task and the `Rules` that it keeps), `World` (both, and
a network that delays, repeats and loses), `search` (breadth first, so that what it finds is the shortest trace).
"""
