"""Bodies of requests that other workers have signed: none is read from a caller whose signature is wrong.

Anybody can send such a request, and its body may be large. The signature of a current worker is verified by the head
alone. That of an older worker, or of Kafka Connect, needs the body: few of those are read at the same time.
"""

import asyncio
from collections.abc import Awaitable, Callable

from starlette.requests import Request

from fencepost.cluster.session_key import ensure_body
from fencepost.rest.body import read_body

MOST_UNVERIFIED = 8
_UNVERIFIED = "unverified_bodies"

Verify = Callable[[bytes | None], Awaitable[bool]]


async def read_signed_body(request: Request, verify: Verify) -> bytes:
    """Return the body once its signature is verified. Raises as `verify` and `read_body` do."""
    if await verify(None):
        body = await read_body(request)
        ensure_body(request.headers, body)
        return body
    async with _places(request):
        body = await read_body(request)
        await verify(body)
    return body


def _places(request: Request) -> asyncio.Semaphore:
    """Return the places for bodies that are not verified yet, which an application has once."""
    state = request.app.state
    if not hasattr(state, _UNVERIFIED):
        setattr(state, _UNVERIFIED, asyncio.Semaphore(MOST_UNVERIFIED))
    places: asyncio.Semaphore = getattr(state, _UNVERIFIED)
    return places
