"""Forwards requests to the worker that has to answer: the leader, or the worker that runs a connector or a task.

As in Kafka Connect, a request takes at most two hops. Its query has `forward=true` on the first hop and
`forward=false` on the second, after which no worker forwards it. A POST takes only one. During a temporary state (an
election, a worker that has just gone), the worker that the user asked retries until the request's time is up, and only
then answers 409.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from fencepost.cluster.errors import (
    ConflictError,
    ElsewhereError,
    NotLeadingError,
    NotReadyError,
    OperationError,
    RequestTimeoutError,
)
from fencepost.cluster.operations import LEADER_LOOK_S, LEADER_RETRY_S, REQUEST_S
from fencepost.cluster.session_key import INVALID_SIGNATURE
from fencepost.rest.access.need import CALLER, caller_of, encoded
from fencepost.rest.access.principal import Principal
from fencepost.rest.body import kept_body
from fencepost.rest.gateway import Gateway
from fencepost.rest.response import WARNINGS, error_answer, status_of

if TYPE_CHECKING:
    import ssl

    import httpx

log = logging.getLogger(__name__)

FORWARD = "forward"
_CONNECT_S = 2.0
_ANSWER_S = REQUEST_S + 5.0  # so that the other worker says itself that its time is up, and with which stage
_LAST_WORD_S = 3.0  # how long to wait for an answer of the previous leader
_MOST_AT_ONCE = 64
_PASSED_ON = ("authorization", "content-type", "accept")
_PASSED_BACK = ("content-type", "location", WARNINGS)
# Requests that may be repeated: a POST may not.
_REPEATABLE = ("GET", "HEAD", "PUT", "PATCH", "DELETE")


class Forwarding:
    """Forwards the requests of one application, on its event loop."""

    def __init__(
        self,
        gateway: Gateway,
        tls: "ssl.SSLContext | None" = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`tls` is for workers whose addresses are https."""
        self._gateway = gateway
        self._tls = tls
        self._now_s = now_s
        self._client: httpx.AsyncClient | None = None

    async def answer(self, request: Request, error: Exception) -> Response:
        """Forward the request to the worker that `error`, an ElsewhereError, names, and return its answer."""
        assert isinstance(error, ElsewhereError)
        try:
            return await self._passed_on(request, error)
        except OperationError as refusal:
            return error_answer(status_of(refusal), refusal.message, request=request)

    async def _passed_on(self, request: Request, error: ElsewhereError) -> Response:
        hop = request.query_params.get(FORWARD)
        if hop == "false":
            raise ConflictError(error.message)
        if hop is not None:
            return await self._second_hop(request, error)
        answer = await self._first_hop(request, error)
        if request.method != "GET" and answer.status_code < 300:
            await self._gateway.run(
                self._gateway.operations.cluster.catch_up
            )  # so that the next request here sees the change
        return answer

    async def _second_hop(self, request: Request, error: ElsewhereError) -> Response:
        """Forward the request a second time, unless its sender has closed the connection.

        Such a sender may have asked another worker since, and this request would undo that change. A leader that was
        paused finds such requests when it continues. A request that must not be repeated is never forwarded from here:
        its sender waits for a limited time (`_LAST_WORD_S`), and then asks the new leader itself.
        """
        import httpx

        if request.method not in _REPEATABLE:
            raise ConflictError(error.message)
        if await _is_left(request):
            log.info("%s %s is not forwarded: the client has disconnected", request.method, request.url.path)
            raise ConflictError(error.message)
        try:
            return await self._send(request, error.url, "false")
        except (httpx.TransportError, NotReadyError) as failure:
            log.info("%s cannot be forwarded to %s: %s", request.url.path, error.url, failure)
            raise ConflictError(error.message) from failure

    async def _first_hop(self, request: Request, error: ElsewhereError) -> Response:
        deadline, url = self._now_s() + REQUEST_S, error.url
        while True:
            answer = await self._attempt(request, error, url)
            if answer is not None and not _is_passing(answer):
                return answer
            if self._now_s() > deadline:
                raise ConflictError(error.message)
            await asyncio.sleep(LEADER_RETRY_S)
            url = await self._locate(error) or url

    async def _attempt(self, request: Request, error: ElsewhereError, url: str) -> Response | None:
        """Send the request once, and return the answer. None: there is no answer, and the request may be repeated."""
        import httpx

        sending = asyncio.ensure_future(self._send(request, url, "true"))
        try:
            while not (await asyncio.wait({sending}, timeout=LEADER_LOOK_S))[0]:
                if (await self._locate(error) or url) != url:
                    # It is no longer the leader and changes nothing more, but may still answer for a change it made.
                    timeout_s = 0.0 if request.method in _REPEATABLE else _LAST_WORD_S
                    if not (await asyncio.wait({sending}, timeout=timeout_s))[0]:
                        log.info("%s no longer answers for %s %s", url, request.method, request.url.path)
                        return None
            answer = await sending
            if not _is_badly_signed(answer):
                return answer
            await self._gateway.run(self._gateway.operations.cluster.catch_up)  # the key was renewed
            return None
        except NotReadyError as failure:
            log.info("%s", failure.message)
            return None
        except (httpx.ConnectError, httpx.ConnectTimeout) as failure:
            log.info("%s cannot be reached: %r", url, failure)
            return None
        except httpx.PoolTimeout:
            raise RequestTimeoutError(
                f"Request timed out. It was not sent to the worker at {url}, as {_MOST_AT_ONCE} others wait for "
                "answers of workers. Send it again."
            ) from None
        except httpx.TimeoutException:
            raise RequestTimeoutError(_silence(request, url)) from None
        except httpx.TransportError as failure:
            log.info("the connection to %s broke: %r", url, failure)
            if request.method in _REPEATABLE:
                return None
            raise ConflictError(
                f"The worker at {url} became unreachable while it handled this request, which may have been carried "
                "out; check, and send it again if needed."
            ) from failure
        finally:
            sending.cancel()

    async def _locate(self, error: ElsewhereError) -> str | None:
        return await self._gateway.run(self._gateway.operations.cluster.locate, error.place)

    async def _send(self, request: Request, url: str, forward: str) -> Response:
        import httpx

        target, body = httpx.URL(_target(request, url, forward)), kept_body(request) or b""
        headers = {name: value for name, value in request.headers.items() if name in _PASSED_ON}
        principal = caller_of(request.scope).principal
        if principal is not None:
            headers.pop("authorization", None)  # this worker has checked it, and says whose it is
            headers |= await self._signed(principal, url, request.method, target.raw_path.decode("ascii"), body)
        answer = await self._http().request(
            request.method, target, content=body, headers=headers | {"user-agent": "kafka-connect"}
        )
        back = {name: answer.headers[name] for name in _PASSED_BACK if name in answer.headers}
        return Response(b"" if answer.status_code == 204 else answer.content, answer.status_code, back)

    async def _signed(self, principal: Principal, url: str, method: str, path: str, body: bytes) -> dict[str, str]:
        caller, internal = encoded(principal), self._gateway.operations.internal
        return {CALLER: caller, **await self._gateway.run(internal.sign_caller, url, caller, method, path, body)}

    def _http(self) -> "httpx.AsyncClient":
        if self._client is None:
            import httpx  # takes 0.2 s, and only several workers need it

            limits = httpx.Limits(max_connections=_MOST_AT_ONCE, keepalive_expiry=5.0)
            timeout = httpx.Timeout(_ANSWER_S, connect=_CONNECT_S, pool=REQUEST_S)
            self._client = httpx.AsyncClient(timeout=timeout, limits=limits, trust_env=False, verify=self._tls or True)
        return self._client


async def _is_left(request: Request) -> bool:
    """Say whether the request's connection is closed. The first call may only return an unread body."""
    return await request.is_disconnected() or await request.is_disconnected()


def _target(request: Request, url: str, forward: str) -> str:
    """Return the URL at another worker: the path as it was sent, with its query and the `forward` parameter."""
    base = urlsplit(url)
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    query = [part for part in request.url.query.split("&") if part and part.partition("=")[0] != FORWARD]
    return f"{base.scheme}://{base.netloc}{raw.decode('latin-1')}?{'&'.join([*query, f'{FORWARD}={forward}'])}"


def _silence(request: Request, url: str) -> str:
    """Return what to say of a worker that has not answered in time, and goes on all the same."""
    text = f"Request timed out. The worker at {url} did not answer within {_ANSWER_S:g} s"
    if request.method in ("GET", "HEAD"):
        return f"{text}."
    return (
        f"{text}. It may still carry the request out, as after a slow validation by a plug-in: check, and send it "
        "again if needed."
    )


def _is_badly_signed(answer: Response) -> bool:
    """Say whether the other worker has not accepted the signature, which it does before it does anything else."""
    return answer.status_code == 403 and INVALID_SIGNATURE.encode() in bytes(answer.body)


def _is_passing(answer: Response) -> bool:
    """Say whether the answer is that no worker is responsible, which changes after the rebalance."""
    if answer.status_code != 409:
        return False
    body = bytes(answer.body)
    return ElsewhereError.TEXT.encode() in body or NotLeadingError.TEXT.encode() in body
