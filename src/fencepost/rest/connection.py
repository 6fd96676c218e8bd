"""A connection of the REST server: HTTP/1.1 with limits on what a slow or silent client can hold, and its certificate.

A client has `HEAD_S` to send the head of its first request, and of any later one once it has begun, and `STALLED_S` to
read on while an answer waits for it. After that the connection is closed. TLS handshakes (`Acceptor`) and bodies
(`body`) have limits of their own, and an idle connection is closed by uvicorn.
"""

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Any

import h11
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
