"""The operations of REST on a worker (port `cluster/operations.py`): offsets, restarts, metrics, access."""
