"""Gates at which sinks of a test ask whether to continue; they are held here at chosen points of their calls."""

import socket
import socketserver
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from fencepost.testing import eventually

_HELD_S = 120.0  # a limit for the busiest of machines


@dataclass(frozen=True)
class Life:
    """One instance of a task, and the process that it runs in."""

    connector: str
    name: str
    pid: int


@dataclass
class Stop:
    """Holds the next life of a connector that comes to a point, until it is released."""

    connector: str
    point: str
    is_due: Callable[[], bool]
    held: Life | None = None
    released: threading.Event = field(default_factory=threading.Event)

    def await_held(self) -> None:
        """Wait until somebody is held. Raises AssertionError."""
        eventually(lambda: self.held is not None or _nobody(self), within_s=_HELD_S, every_s=0.01)


def _nobody(stop: Stop) -> bool:
    raise AssertionError(f"nobody of {stop.connector} has come to {stop.point!r}")


class SinkGates:
    """Listens at `port`. A context manager."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stops: list[Stop] = []
        self._newest: dict[str, Life] = {}
        self._connections: list[socket.socket] = []
        gates = self

        class Asked(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                gates._serve(self)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Asked)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.1,), name="sink-gates", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        for connection in self._connections:
            connection.close()

    def hold(self, connector: str, point: str, is_due: Callable[[], bool] = lambda: True) -> Stop:
        """Hold the next life that comes to `point` (such as "put before") once it `is_due`."""
        stop = Stop(connector, point, is_due)
        with self._lock:
            self._stops.append(stop)
        return stop

    def newest(self, connector: str) -> Life:
        """Return the life that began last."""
        return self._newest[connector]

    def _serve(self, asked: Any) -> None:
        self._connections.append(asked.connection)
        try:
            connector, name, pid = asked.rfile.readline().decode().split()
            life = self._newest[connector] = Life(connector, name, int(pid))
            asked.wfile.write(b"\n")
            for line in asked.rfile:
                stop = self._met(life, line.decode().strip())
                if stop is not None:
                    stop.released.wait()
                asked.wfile.write(b"\n")
        except (OSError, ValueError):
            return  # it was killed

    def _met(self, life: Life, point: str) -> Stop | None:
        with self._lock:
            for stop in self._stops:
                if (stop.connector, stop.point) == (life.connector, point) and stop.is_due():
                    self._stops.remove(stop)
                    stop.held = life
                    return stop
        return None
