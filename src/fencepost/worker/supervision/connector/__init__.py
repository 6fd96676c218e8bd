"""Runs the connectors that are assigned to this worker: their code, their restarts, and their task configs."""
