"""Handlers, one module per family of paths; each offers a `router`.

They read the request, call one operation and render its answer; rules about connectors are the worker's.
"""
