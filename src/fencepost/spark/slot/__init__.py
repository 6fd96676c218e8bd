"""Slots as Spark jobs, the cores that they need, and the causes of failed jobs."""
