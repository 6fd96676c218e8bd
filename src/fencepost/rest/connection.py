"""A connection of the REST server: HTTP/1.1 with limits on what a slow or silent client can hold, and its certificate.

A client has `HEAD_S` to send the head of its first request, and of any later one once it has begun, and `STALLED_S` to
read on while an answer waits for it. After that the connection is closed. TLS handshakes (`acceptor`) and bodies
(`body`) have limits of their own, and an idle connection is closed by uvicorn.
"""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from fencepost.rest.access.certificate import PEER, principal_of

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
