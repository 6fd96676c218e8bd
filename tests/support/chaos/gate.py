"""A TCP forwarder to a local port that can be closed, which cuts a worker off from its peers."""

import contextlib
import socket
import threading
from enum import Enum, auto

from support.proxy import reset

_CHUNK = 1 << 16
_CONNECT_S = 5.0


class Closed(Enum):
    """How a closed gate treats connections."""

    REFUSING = auto()  # resets them, those that are open and those that come
    SILENT = auto()  # lets them be, and nothing through until it opens: a network that loses every packet


class Gate:
    """Listens on a port of its own on the loopback interface, from `start` to `stop`; a context manager."""

    def __init__(self, port: int) -> None:
        """`port` is where it leads to; nobody needs to listen there yet."""
        self._target = ("127.0.0.1", port)
        self._lock = threading.Lock()
        self._ends: set[socket.socket] = set()
        self._flows = threading.Event()
        self._flows.set()
        self._is_refusing = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._accept, name="gate", daemon=True)

    def __enter__(self) -> "Gate":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def close(self, how: Closed) -> None:
        if how is Closed.SILENT:
            self._flows.clear()
        else:
            self._is_refusing = True
            self._reset_all()

    def open(self) -> None:
        """Let everything through, including what waited at a silent gate."""
        self._is_refusing = False
        self._flows.set()

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._reset_all()
        self._flows.set()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self._flows.wait()
        try:
            if self._is_refusing:
                raise ConnectionRefusedError
            worker = socket.create_connection(self._target, _CONNECT_S)
        except OSError:
            reset(client)
            return
        worker.settimeout(None)
        with self._lock:
            self._ends |= {client, worker}
        if self._is_refusing:  # closed since it was asked above
            self._reset_all()
        threading.Thread(target=self._pump, args=(worker, client), daemon=True).start()
        self._pump(client, worker)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                self._flows.wait()
                sink.sendall(data)
        with self._lock:
            mine = self._ends & {source, sink}
            self._ends -= mine
        for end in mine:  # what is not there is reset by somebody else at this moment: no orderly end before that
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _reset_all(self) -> None:
        with self._lock:
            ends, self._ends = self._ends, set()
        for end in ends:
            reset(end)
