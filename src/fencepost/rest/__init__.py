"""The REST API of a worker: Kafka Connect's paths, codes, bodies and texts over a `ConnectOperations`.

Core types: `create_app` (operations in, FastAPI application out) and `RestServer` (serves some on a thread).

Invariants: async code is here and nowhere else. Every error is `{"error_code", "message"}`. Nothing that a
user sent takes effect before the whole request was understood. Questions that the worker answers from memory
run on the event loop, everything else on threads of the gateway.
"""

from fencepost.rest.app import create_app
from fencepost.rest.server import Endpoint, RestServer

__all__ = ["Endpoint", "RestServer", "create_app"]
