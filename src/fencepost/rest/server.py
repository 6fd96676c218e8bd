"""Serves applications over HTTP and HTTPS on a separate thread.

A connection is HTTP/1.1 with limits on what a slow or silent client can hold. A client has `HEAD_S` to send the head of
its first request, and of any later one once it has begun, and `STALLED_S` to read on while an answer waits for it.
After that the connection is closed. TLS handshakes (`Acceptor`) and bodies (`body`) have limits of their own, and an
idle connection is closed by uvicorn.
"""

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from fencepost.rest.access.principal import PEER, principal_of

log = logging.getLogger("fencepost.rest")

MOST_HANDSHAKES = 256
HANDSHAKE_S = 10.0
SHUTDOWN_S = 30

_AT_ONCE = 100
_RETRY_S = 1.0
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Acceptor:
    """A listening socket whose connections get a protocol each. All on the event loop.

    asyncio's own server shows a connection when its handshake is complete: a client that never completes one would cost
    memory that nobody counts.

    A handshake has `HANDSHAKE_S`. One more than `MOST_HANDSHAKES` cuts off the oldest of the address that has most of
    them, so that a client that begins many takes no room from others.
    """

    def __init__(
        self, listener: socket.socket, protocol: Callable[[], asyncio.Protocol], tls: ssl.SSLContext | None
    ) -> None:
        self._listener = listener
        self._protocol = protocol
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._handshakes: dict[asyncio.Task[None], str] = {}  # with the client's address, the oldest first
        self._again: asyncio.TimerHandle | None = None  # while it does not listen
        listener.setblocking(False)
        self._listen()

    def close(self) -> None:
        """Accept nothing more. Handshakes that have begun end."""
        self._pause()
        for task in self._handshakes:
            task.cancel()

    async def wait_closed(self) -> None:
        """Return when no handshake is left."""
        if self._handshakes:
            await asyncio.wait(list(self._handshakes))

    def _listen(self) -> None:
        self._again = None
        self._loop.add_reader(self._listener, self._accept)

    def _pause(self, until_s: float | None = None) -> None:
        self._loop.remove_reader(self._listener)
        if self._again is not None:
            self._again.cancel()
        self._again = None if until_s is None else self._loop.call_at(until_s, self._listen)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise  # the loop logs it
                log.warning("no connection can be accepted: %s; trying again in %g s", error, _RETRY_S)
                self._pause(self._loop.time() + _RETRY_S)
                return
            self._make_room()
            task = self._loop.create_task(self._welcome(accepted))
            self._handshakes[task] = address[0]
            task.add_done_callback(self._ended)

    async def _welcome(self, accepted: socket.socket) -> None:
        """Let the client and TLS shake hands; without TLS it takes one turn of the loop."""
        has_tls = self._tls is not None
        with contextlib.suppress(OSError):  # TLS errors are some; so is a time-out
            await self._loop.connect_accepted_socket(
                self._protocol,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=HANDSHAKE_S if has_tls else None,
                # asyncio does not tell a protocol above TLS that an answer waits, if all of it was written at once: a
                # client that does not read it is idle until KEEP_ALIVE_S, and has then this long before it is cut off.
                ssl_shutdown_timeout=SHUTDOWN_S if has_tls else None,
            )

    def _ended(self, task: "asyncio.Task[None]") -> None:
        del self._handshakes[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a connection could not be served", exc_info=error)

    def _make_room(self) -> None:
        """Cut off one handshake if none may be added. Without TLS there is none: its connections are bounded later."""
        if self._tls is None:
            return
        going_on = {task: host for task, host in self._handshakes.items() if not task.cancelling()}
        if len(going_on) >= MOST_HANDSHAKES:
            ((most, _),) = Counter(going_on.values()).most_common(1)
            next(task for task, host in going_on.items() if host == most).cancel()


HEAD_S = 10.0
STALLED_S = 60.0
MOST_CONNECTIONS = 1_000


class Connection(H11Protocol):
    """Created for each connection, on the event loop."""

    head_s = HEAD_S
    stalled_s = STALLED_S
    most = MOST_CONNECTIONS
    _deadline: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.abort()
            return
        peer = principal_of(transport.get_extra_info("ssl_object"))
        if peer is not None:
            self.app_state: dict[str, Any] = {**self.app_state, PEER: peer}
        self._limit_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._limit_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel()
        self._resume()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(self.stalled_s, self.transport.abort)

    def resume_writing(self) -> None:
        self._resume()
        super().resume_writing()

    def _limit_head(self) -> None:
        """Start the time of a head that is not complete, or of a body after its answer; else end it."""
        is_answered = self.cycle is not None and self.cycle.response_complete
        if self.conn.their_state is not h11.IDLE and not (is_answered and self.conn.their_state is h11.SEND_BODY):
            self._cancel()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.head_s, self.transport.abort)

    def _cancel(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _resume(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None


GRACEFUL_SHUTDOWN_S = 60
KEEP_ALIVE_S = 30
BACKLOG = 1024
START_WITHIN_S = 30


@dataclass(frozen=True)
class Endpoint:
    """An application and the address at which it is served, with TLS if it has a context.

    Port 0 is any free one. With an empty host it is served on all interfaces.
    """

    app: ASGIApp
    host: str
    port: int
    tls: ssl.SSLContext | None = field(default=None, repr=False)


class RestServer:
    """Serves endpoints, all on one event loop: several of them may have the same application.

    `start` binds the ports, so that it raises an OSError if one is in use; `ports` returns them afterwards.
    """

    def __init__(self, *endpoints: Endpoint) -> None:
        self._endpoints = endpoints
        self._sockets: list[socket.socket] = []
        self._servers: list[_Server] = []
        self._thread: threading.Thread | None = None

    @property
    def ports(self) -> list[int]:
        """Return the ports, in the order of the endpoints."""
        if self._thread is None:
            raise RuntimeError("the server is not started")
        return [each.getsockname()[1] for each in self._sockets]

    @property
    def port(self) -> int:
        """Return the port of the first endpoint."""
        return self.ports[0]

    def start(self) -> None:
        """Start, and return once requests are answered. Raises OSError if an address cannot be bound."""
        if self._thread is not None:
            raise RuntimeError("the server was started already")
        self._sockets = _all_bound(self._endpoints)
        self._servers = [_Server(_config(each)) for each in self._endpoints]
        self._thread = threading.Thread(target=self._serve, name="rest", daemon=True)
        self._thread.start()
        if not all(server.is_up.wait(START_WITHIN_S) for server in self._servers):
            raise RuntimeError(f"the REST server did not start within {START_WITHIN_S} s")

    def stop(self, timeout_s: float = GRACEFUL_SHUTDOWN_S) -> None:
        """Refuse new requests, let running ones end within `timeout_s`, then drop them. Idempotent."""
        if self._thread is None:
            return
        for server in self._servers:
            server.config.timeout_graceful_shutdown = max(0, round(timeout_s))
            server.should_exit = True
        self._thread.join(timeout_s + 5)
        for each in self._sockets:
            each.close()

    def _serve(self) -> None:
        asyncio.run(self._serve_all())

    async def _serve_all(self) -> None:
        await asyncio.gather(*(server.serve([one]) for server, one in zip(self._servers, self._sockets, strict=True)))


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen as uvicorn does, with bounds."""
        await self.lifespan.startup()

        def connection() -> Connection:
            return Connection(self.config, self.server_state, self.lifespan.state)

        # uvicorn closes these, and waits for their end.
        self.servers = [Acceptor(each, connection, self.config.ssl) for each in sockets or []]  # type: ignore[misc]
        self.started = True
        self.is_up.set()


def _config(endpoint: Endpoint) -> uvicorn.Config:
    config = uvicorn.Config(
        endpoint.app,
        http=Connection,
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACEFUL_SHUTDOWN_S,
    )
    config.load()
    config.ssl = endpoint.tls
    return config


def _all_bound(endpoints: Sequence[Endpoint]) -> list[socket.socket]:
    bound: list[socket.socket] = []
    try:
        for each in endpoints:
            bound.append(_bound(each.host, each.port))
    except OSError as error:
        for one in bound:
            one.close()
        raise OSError(error.errno, error.strerror, f"{each.host}:{each.port}") from None
    return bound


def _bound(host: str, port: int) -> socket.socket:
    if not host and socket.has_dualstack_ipv6():
        listener = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG)
    else:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    # asyncio turns Nagle's delay off only where it sees the protocol number, which create_server leaves 0;
    # with the delay, an answer on a kept connection takes 40 ms.
    return socket.socket(listener.family, listener.type, socket.IPPROTO_TCP, fileno=listener.detach())
