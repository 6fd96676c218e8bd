"""Accepts the connections of a listener, and bounds those whose TLS handshake is not complete.

asyncio's own server shows a connection when its handshake is complete. A client that never completes one would cost
memory that nobody counts.
"""

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable

log = logging.getLogger("fencepost.rest")

MOST_HANDSHAKES = 256
HANDSHAKE_S = 10.0
SHUTDOWN_S = 30

_AT_ONCE = 100
_RETRY_S = 1.0
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Acceptor:
    """A listening socket whose connections get a protocol each. All on the event loop.

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
