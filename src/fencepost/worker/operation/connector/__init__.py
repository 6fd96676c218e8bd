"""Connectors and their tasks: configs, states, restarts."""
