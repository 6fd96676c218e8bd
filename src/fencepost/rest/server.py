"""Serves applications over HTTP and HTTPS on a separate thread."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import uvicorn
from starlette.types import ASGIApp

from fencepost.rest.connection import Acceptor, Connection

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
