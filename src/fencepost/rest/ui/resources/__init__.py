"""Handlers of `/ui`, one module for each kind of page."""
