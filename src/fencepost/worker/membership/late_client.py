"""The HTTP client of this worker's own requests to the other workers."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from fencepost.cluster.operations import REQUEST_S

if TYPE_CHECKING:
    import ssl

    import httpx


class LateClient:
    """Makes its client when it is first asked for: a lone worker needs neither it nor the library. Thread-safe."""

    def __init__(self, tls: "ssl.SSLContext | None" = None) -> None:
        """`tls` is for workers whose addresses are https."""
        self._tls = tls
        self._lock = threading.Lock()
        self._made: httpx.Client | None = None

    def get(self) -> "httpx.Client":
        with self._lock:
            if self._made is None:
                import httpx

                self._made = httpx.Client(
                    timeout=httpx.Timeout(REQUEST_S, connect=2.0),
                    limits=httpx.Limits(max_connections=None, max_keepalive_connections=8),
                    trust_env=False,
                    verify=self._tls or True,
                    headers={"user-agent": "fencepost"},
                )
            return self._made


def begun(act: "Callable[[], httpx.Response]") -> "Future[httpx.Response]":
    """Call `act` in a daemon thread, and return its outcome."""
    done: Future[httpx.Response] = Future()

    def run() -> None:
        try:
            done.set_result(act())
        except Exception as error:
            done.set_exception(error)

    threading.Thread(target=run, name="request-to-worker", daemon=True).start()
    return done
