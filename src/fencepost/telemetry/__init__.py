"""Logs of the worker process."""
