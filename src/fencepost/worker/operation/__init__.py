"""The operations of REST on a worker (port `cluster/operations.py`), a room for each resource."""
