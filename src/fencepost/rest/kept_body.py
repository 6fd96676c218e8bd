"""The body of a request, kept once it was read: for forwarding, and for errors that repeat what it says."""

from starlette.requests import Request

_BODY = "fencepost.body"


def keep_body(request: Request, body: bytes) -> None:
    """Keep a body that was read."""
    request.scope[_BODY] = body


def kept_body(request: Request) -> bytes | None:
    """Return the body, if it was read."""
    body: bytes | None = request.scope.get(_BODY)
    return body
