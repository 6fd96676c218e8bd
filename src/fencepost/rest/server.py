"""Serves an application over HTTP on a separate thread."""

import asyncio
import socket
import threading

import uvicorn
from starlette.types import ASGIApp

GRACEFUL_SHUTDOWN_S = 60
KEEP_ALIVE_S = 30
BACKLOG = 1024
START_WITHIN_S = 30


class RestServer:
    """One listener.

    `start` binds the port, so that it raises an OSError if the port is in use. Port 0 chooses a free one, which `port`
    returns afterwards. With an empty host the server listens on all interfaces.
    """

    def __init__(self, app: ASGIApp, host: str, port: int) -> None:
        self._app = app
        self._host = host
        self._wanted_port = port
        self._socket: socket.socket | None = None
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        if self._socket is None:
            raise RuntimeError("the server is not started")
        port: int = self._socket.getsockname()[1]
        return port

    def start(self) -> None:
        """Start, and return once requests are answered. Raises OSError if the address cannot be bound."""
        if self._thread is not None:
            raise RuntimeError("the server was started already")
        self._socket = _bound(self._host, self._wanted_port)
        self._server = _Server(_config(self._app))
        self._thread = threading.Thread(target=self._serve, name="rest", daemon=True)
        self._thread.start()
        if not self._server.is_up.wait(START_WITHIN_S):
            raise RuntimeError(f"the REST server did not start within {START_WITHIN_S} s")

    def stop(self, timeout_s: float = GRACEFUL_SHUTDOWN_S) -> None:
        """Refuse new requests, let running ones end within `timeout_s`, then drop them. Idempotent."""
        if self._server is None or self._thread is None or self._socket is None:
            return
        self._server.config.timeout_graceful_shutdown = max(0, round(timeout_s))
        self._server.should_exit = True
        self._thread.join(timeout_s + 5)
        self._socket.close()

    def _serve(self) -> None:
        assert self._server is not None
        assert self._socket is not None
        asyncio.run(self._server.serve([self._socket]))


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()


def _config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACEFUL_SHUTDOWN_S,
    )


def _bound(host: str, port: int) -> socket.socket:
    if not host and socket.has_dualstack_ipv6():
        listener = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG)
    else:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    # asyncio turns Nagle's delay off only where it sees the protocol number, which create_server leaves 0;
    # with the delay, an answer on a kept connection takes 40 ms.
    return socket.socket(listener.family, listener.type, socket.IPPROTO_TCP, fileno=listener.detach())
