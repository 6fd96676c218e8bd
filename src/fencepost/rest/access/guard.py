"""The layer that finds out who sends a request, before anything else is done for it.

It remembers credentials that were right a moment ago, and bounds how often a caller may guess a password or send a
request.
"""

import asyncio
import hashlib
import hmac
import math
import os
import re
import threading
import time
from collections.abc import Callable

import anyio.to_thread
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fencepost.cluster.errors import OperationError
from fencepost.config.rest import RestConfig, RestLimitConfig
from fencepost.rest.access.access import NO_LIMITS, Access, Limits
from fencepost.rest.access.access_log import log_change
from fencepost.rest.access.need import CALLER, READING, Caller, decoded, is_audited, is_between_workers, keep_caller
from fencepost.rest.access.origin import is_of_own_site, network_of
from fencepost.rest.access.principal import PEER, Authenticator, Checked, Principal, Rules, UncheckedError
from fencepost.rest.body import read_signed_body
from fencepost.rest.gateway import Gateway
from fencepost.rest.path import signed_target
from fencepost.rest.response import error_answer, status_of

_MOST_KNOWN = 10_000


class Attempts:
    """Counts by address or name: `most` at once, and one more every `refill_s`. Thread-safe.

    Those that were counted least recently are forgotten when there are too many.
    """

    def __init__(self, most: int = 20, refill_s: float = 3.0, now_s: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._refill_s = refill_s
        self._now_s = now_s
        self._lock = threading.Lock()
        self._free_at: dict[str, float] = {}  # when all attempts of an address are free again; the newest last

    def wait_s(self, address: str) -> int:
        """Return how long one has to wait before the next attempt, in whole seconds; 0: not at all."""
        used_s = self._free_at.get(address, 0.0) - self._now_s()
        return max(0, math.ceil(used_s - (self._most - 1) * self._refill_s))

    def count(self, address: str) -> None:
        """Count an attempt."""
        with self._lock:
            free_at = max(self._free_at.pop(address, 0.0), self._now_s())
            self._free_at[address] = free_at + self._refill_s
            while len(self._free_at) > _MOST_KNOWN:
                del self._free_at[next(iter(self._free_at))]


class WrongPasswords:
    """Counts wrong passwords of a name from an address, and more of them from an address, for whatever names."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._of_names = Attempts(now_s=now_s)
        self._of_addresses = Attempts(most=60, refill_s=0.25, now_s=now_s)

    def wait_s(self, address: str, name: str, *, were_right: bool) -> int:
        """Return how long credentials have to wait; only those that `were_right` once do not wait for other names."""
        of_address = 0 if were_right else self._of_addresses.wait_s(address)
        return max(of_address, self._of_names.wait_s(_guess(address, name)))

    def count(self, address: str, name: str) -> None:
        """Count a wrong password."""
        self._of_names.count(_guess(address, name))
        self._of_addresses.count(address)


def _guess(address: str, name: str) -> str:
    return f"{address} {hashlib.sha256(name.encode()).hexdigest()}"


_MOST = 1_000


class KnownCredentials:
    """Remembers credentials for as long as their authenticator says, under a keyed hash. On the event loop only."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._key = os.urandom(32)
        self._checked: dict[bytes, Checked] = {}  # the newest last

    def get(self, header: str) -> Checked | None:
        """Return whose credentials a header has; None if they have to be checked."""
        found = self._checked.get(self._hash(header))
        return None if found is None or found.until_s <= self._now_s() else found

    def were_right(self, header: str) -> bool:
        """Return whether they were right once, though they may have to be checked again."""
        return self._hash(header) in self._checked

    def keep(self, header: str, checked: Checked) -> None:
        """Remember them; the oldest are forgotten when there are too many."""
        key = self._hash(header)
        self._checked.pop(key, None)
        self._checked[key] = checked
        while len(self._checked) > _MOST:
            del self._checked[next(iter(self._checked))]

    def _hash(self, header: str) -> bytes:
        return hmac.digest(self._key, header.encode("utf-8", "surrogateescape"), hashlib.sha256)


_MOST_CHECKED = 4  # of a scheme at the same time: a hash takes a core for 0.2 s, and an issuer may not answer
_NOBODY = Caller(rules=Rules(()))


class _RefusedError(Exception):
    def __init__(self, answer: Response) -> None:
        self.answer = answer


class Guard:
    """Identifies callers, keeps them for handlers, and logs changes with who made them.

    Correct credentials are remembered for as long as their authenticator says, under a keyed hash. An address that has
    sent many wrong passwords of a name has to wait with others of that name; correct ones are answered in the meantime
    if they are remembered. Other names are not concerned: a proxy has one address for all of its users. An address that
    has sent many more, for whatever names, has to wait with credentials that were never right: a check takes a core.
    `allowed_origins` are those whose pages may use the API as well (CORS).
    """

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        gateway: Gateway,
        limits: Limits = NO_LIMITS,
        *,
        allowed_origins: re.Pattern[str] | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._access = access
        self._gateway = gateway
        self._known = KnownCredentials(now_s)
        self._allowed_origins = allowed_origins
        self._wrong = WrongPasswords(now_s)
        per_s = limits.requests_per_s
        self._requests = Attempts(most=2 * per_s, refill_s=1 / per_s, now_s=now_s) if per_s else None
        self._checking = {scheme: asyncio.Semaphore(_MOST_CHECKED) for scheme in access.authenticators}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        caller, app = _NOBODY, self._app
        try:
            request = Request(scope, receive)
            self._ensure_own_site(request)
            caller = await self._identified(request)
            self._count(request, caller)
        except _RefusedError as error:
            app = error.answer
        keep_caller(scope, caller)
        if is_audited(scope["method"], scope["path"]) and not caller.is_forwarded:
            await _logged(app, scope, receive, send, caller)
        else:
            await app(scope, receive, send)

    def _ensure_own_site(self, request: Request) -> None:
        """Refuse what a browser sends for a page of another site, unless it only reads.

        It adds the user's password or certificate by itself, and asks for no permission before a POST without a body.
        """
        if request.method in READING or is_of_own_site(request.headers):
            return
        allowed, origin = self._allowed_origins, request.headers.get("origin", "null")
        if allowed is None or allowed.fullmatch(origin) is None:
            text = f"A page of another site asks for this; {RestConfig.key_of('access_control_allow_origin')} lets it"
            raise _RefusedError(error_answer(403, text))

    def _count(self, request: Request, caller: Caller) -> None:
        is_of_worker = caller.is_forwarded or is_between_workers(request.method, request.scope["path"])
        if self._requests is None or caller.is_exempt or is_of_worker:
            return
        who = _address(request) if caller.name is None else f"name {caller.name}"
        if wait_s := self._requests.wait_s(who):
            text = f"Too many requests: wait {wait_s} s, or raise {RestLimitConfig.key_of('requests_per_second_max')}"
            raise _RefusedError(error_answer(429, text, {"retry-after": str(wait_s)}))
        self._requests.count(who)

    async def _identified(self, request: Request) -> Caller:
        access, path = self._access, request.scope["path"]
        if not access.asks:
            return Caller()
        if path in access.open_paths or is_between_workers(request.method, path):
            return Caller(rules=Rules(()), is_exempt=True)
        if CALLER in request.headers:
            return Caller(await self._forwarded(request), access.rules(), is_forwarded=True)
        if "authorization" in request.headers:
            return Caller(await self._authenticated(request), access.rules())
        peer: Principal | None = request.scope.get("state", {}).get(PEER) if access.has_certificates else None
        if peer is None:
            raise self._unauthorized("User cannot access the resource: it needs credentials")
        return Caller(peer, access.rules())

    async def _forwarded(self, request: Request) -> Principal:
        stated, headers = request.headers[CALLER], dict(request.headers)

        async def verify(body: bytes | None) -> bool:
            to_verify = self._gateway.operations.internal.verify_caller
            return await self._gateway.run(to_verify, stated, request.method, signed_target(request), body, headers)

        try:
            await read_signed_body(request, verify)
            return decoded(stated)
        except OperationError as error:
            raise _RefusedError(error_answer(status_of(error), error.message)) from None
        except HTTPException as error:
            raise _RefusedError(error_answer(error.status_code, str(error.detail))) from None
        except ClientDisconnect:
            raise _RefusedError(error_answer(400, "The request ended before its body")) from None

    async def _authenticated(self, request: Request) -> Principal:
        header = request.headers["authorization"]
        scheme, _, credentials = header.partition(" ")
        authenticator = self._access.authenticators.get(scheme.lower())
        if authenticator is None:
            raise self._unauthorized(f"User cannot access the resource: this worker does not take {_shown(scheme)}")
        known = self._known.get(header)
        if known is None:
            async with self._checking[authenticator.scheme]:
                # Those that have waited here may find the same credentials checked, or too many wrong ones counted.
                known = self._known.get(header) or await self._checked(request, authenticator, credentials.strip())
                self._known.keep(header, known)
        return known.principal

    async def _checked(self, request: Request, authenticator: Authenticator, credentials: str) -> Checked:
        name, address = authenticator.guessed_name(credentials), _address(request)
        were_right = self._known.were_right(request.headers["authorization"])
        if name is not None and (wait_s := self._wrong.wait_s(address, name, were_right=were_right)):
            text = f"Too many wrong passwords from this address; wait {wait_s} s"
            raise _RefusedError(error_answer(429, text, {"retry-after": str(wait_s)}))
        try:
            checked = await anyio.to_thread.run_sync(authenticator.authenticate, credentials)
        except UncheckedError as error:
            raise _RefusedError(error_answer(503, str(error))) from None
        if checked is None:
            if name is not None:
                self._wrong.count(address, name)
            raise self._unauthorized("User cannot access the resource: the credentials are wrong")
        return checked

    def _unauthorized(self, text: str) -> _RefusedError:
        challenges = [each.challenge for each in self._access.authenticators.values()]
        headers = {"www-authenticate": ", ".join(challenges)} if challenges else None
        return _RefusedError(error_answer(401, text, headers))


def _address(request: Request) -> str:
    return network_of(request.client.host) if request.client is not None else ""


def _shown(scheme: str) -> str:
    known = {"basic": "basic authentication", "bearer": "bearer tokens"}
    return known.get(scheme.lower(), "this kind of credentials")


async def _logged(app: ASGIApp, scope: Scope, receive: Receive, send: Send, caller: Caller) -> None:
    status = 500

    async def watch(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        await send(message)

    try:
        await app(scope, receive, watch)
    finally:
        log_change(scope, caller.name, status)
