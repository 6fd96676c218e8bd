"""Runs the tasks that are assigned to this worker.

`supervisor.py` compares what should run with what runs, both in `table.py`; `endings.py`, `failures.py` and
`reports.py` do what follows.
"""
