"""Slots as Spark jobs, the cores that they need, and what a failed job says."""
