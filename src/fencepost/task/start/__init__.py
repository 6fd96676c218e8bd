"""One start of a task, whatever its kind: its thread and state, its counters, and its progress."""
