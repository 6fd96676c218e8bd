"""Requests that another worker has to answer are passed on: to the leader, or to whoever runs a connector or a task.

As in Kafka Connect, a request goes over two hops at most: the query says `forward=true` on the first and
`forward=false` on the second, after which no worker passes it on. A POST goes over one. The worker that the user asked
waits out what is passing (an election, a worker that has just gone) until the request's time is up, and only then
answers 409.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from fencepost.cluster.errors import ConflictError, ElsewhereError, NotLeadingError, OperationError, RequestTimeoutError
from fencepost.cluster.operations import REQUEST_S
from fencepost.rest.errors import error_answer, status_of
from fencepost.rest.gateway import Gateway

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)

FORWARD = "forward"
_CONNECT_S = 2.0
_RETRY_S = 0.2
_LOOK_S = 1.0
_LAST_WORD_S = 3.0  # the wait for an answer of the worker that led until now
_MOST_AT_ONCE = 64
_PASSED_ON = ("authorization", "content-type", "accept")
_PASSED_BACK = ("content-type", "location")
# Requests that may be repeated: a POST may not.
_REPEATABLE = ("GET", "HEAD", "PUT", "PATCH", "DELETE")
_BODY = "fencepost.body"


def keep_body(request: Request, body: bytes) -> None:
    """Remember a body that was read, in case that the request has to be passed on."""
    request.scope[_BODY] = body


class Forwarding:
    """Passes requests on; one for an application. Used on its event loop."""

    def __init__(self, gateway: Gateway, now_s: Callable[[], float] = time.monotonic) -> None:
        self._gateway = gateway
        self._now_s = now_s
        self._client: httpx.AsyncClient | None = None

    async def answer(self, request: Request, error: Exception) -> Response:
        """Pass the request on to the worker that `error`, an ElsewhereError, names, and return what is answered."""
        assert isinstance(error, ElsewhereError)
        try:
            return await self._passed_on(request, error)
        except OperationError as refusal:
            return error_answer(status_of(refusal), refusal.message)

    async def _passed_on(self, request: Request, error: ElsewhereError) -> Response:
        hop = request.query_params.get(FORWARD)
        if hop == "false":
            raise ConflictError(error.message)
        if hop is not None:
            return await self._second_hop(request, error)
        answer = await self._first_hop(request, error)
        if request.method != "GET" and answer.status_code < 300:
            await self._gateway.run(self._gateway.operations.cluster.catch_up)  # whoever looks here next sees it
        return answer

    async def _second_hop(self, request: Request, error: ElsewhereError) -> Response:
        """Pass it on unless the worker that sent it has gone: it may have asked another one, and this would undo that.

        A leader that was paused finds such requests when it continues. A request that must not be repeated is not
        passed on from here: its sender waits for a limited time (`_LAST_WORD_S`), and then asks the new leader itself.
        """
        import httpx

        if request.method not in _REPEATABLE:
            raise ConflictError(error.message)
        if await _is_left(request):
            log.info("%s %s is not passed on: who asked has gone", request.method, request.url.path)
            raise ConflictError(error.message)
        try:
            return await self._send(request, error.url, "false")
        except httpx.TransportError as failure:
            log.info("%s is not passed on to %s: %s", request.url.path, error.url, failure)
            raise ConflictError(error.message) from failure

    async def _first_hop(self, request: Request, error: ElsewhereError) -> Response:
        deadline, url = self._now_s() + REQUEST_S, error.url
        while True:
            answer = await self._attempt(request, error, url)
            if answer is not None and not _is_passing(answer):
                return answer
            if self._now_s() > deadline:
                raise ConflictError(error.message)
            await asyncio.sleep(_RETRY_S)
            url = await self._locate(error) or url

    async def _attempt(self, request: Request, error: ElsewhereError, url: str) -> Response | None:
        """Return the answer; None if there is none, and the request may be repeated."""
        import httpx

        sending = asyncio.ensure_future(self._send(request, url, "true"))
        try:
            while not (await asyncio.wait({sending}, timeout=_LOOK_S))[0]:
                if (await self._locate(error) or url) != url:
                    # It no longer leads and carries out nothing more, but may be about to answer for what it did.
                    timeout_s = 0.0 if request.method in _REPEATABLE else _LAST_WORD_S
                    if not (await asyncio.wait({sending}, timeout=timeout_s))[0]:
                        log.info("%s no longer answers for %s %s", url, request.method, request.url.path)
                        return None
            return await sending
        except (httpx.ConnectError, httpx.ConnectTimeout) as failure:
            log.info("%s cannot be reached: %r", url, failure)
            return None
        except httpx.TimeoutException:
            raise RequestTimeoutError(f"Request timed out. The worker at {url} did not answer.") from None
        except httpx.TransportError as failure:
            log.info("%s has gone: %r", url, failure)
            if request.method in _REPEATABLE:
                return None
            raise ConflictError(
                f"The worker at {url} went away while it handled this request, which may have been carried out; "
                "look, and ask again."
            ) from failure
        finally:
            sending.cancel()

    async def _locate(self, error: ElsewhereError) -> str | None:
        return await self._gateway.run(self._gateway.operations.cluster.locate, error.place)

    async def _send(self, request: Request, url: str, forward: str) -> Response:
        headers = {name: value for name, value in request.headers.items() if name in _PASSED_ON}
        answer = await self._http().request(
            request.method,
            _target(request, url, forward),
            content=request.scope.get(_BODY, b""),
            headers=headers | {"user-agent": "kafka-connect"},
        )
        back = {name: answer.headers[name] for name in _PASSED_BACK if name in answer.headers}
        return Response(b"" if answer.status_code == 204 else answer.content, answer.status_code, back)

    def _http(self) -> "httpx.AsyncClient":
        if self._client is None:
            import httpx  # a fifth of a second, and only where there are several workers

            limits = httpx.Limits(max_connections=_MOST_AT_ONCE, keepalive_expiry=5.0)
            timeout = httpx.Timeout(REQUEST_S + 5.0, connect=_CONNECT_S, pool=REQUEST_S)
            self._client = httpx.AsyncClient(timeout=timeout, limits=limits, trust_env=False)
        return self._client


async def _is_left(request: Request) -> bool:
    """Say whether the request's connection is closed. The first answer may be about a body that nobody has read."""
    return await request.is_disconnected() or await request.is_disconnected()


def _target(request: Request, url: str, forward: str) -> str:
    """Return the URL at another worker: the path as it was sent, with its query and the hop."""
    base = urlsplit(url)
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    query = [part for part in request.url.query.split("&") if part and part.partition("=")[0] != FORWARD]
    return f"{base.scheme}://{base.netloc}{raw.decode('latin-1')}?{'&'.join([*query, f'{FORWARD}={forward}'])}"


def _is_passing(answer: Response) -> bool:
    """Say whether no worker felt responsible, which changes once the rebalance is over."""
    if answer.status_code != 409:
        return False
    body = bytes(answer.body)
    return ElsewhereError.TEXT.encode() in body or NotLeadingError.TEXT.encode() in body
