"""What a user asks of a worker: the port of REST (`cluster/operations.py`), offsets, restarts, metrics, access."""
