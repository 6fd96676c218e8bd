"""Deletes records that all sinks have committed, of topics that no one else reads (KIP-762)."""
