"""Streaming queries as connectors: their frames, their run and their progress. Driver side."""
