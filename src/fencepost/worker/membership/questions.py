"""Questions to all other workers at once, for answers that show the whole cluster; an answer never waits for long."""

import logging
import threading
from collections.abc import Collection, Mapping
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING

from fencepost.worker.membership.late_client import LateClient, begun
from fencepost.worker.membership.peers import Peers

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)

_GIVEN_UP_S = 10.0


class Questions:
    """Sends signed requests that only read (KIP-507). Any thread.

    A worker that does not answer in time is not waited for again until its request has failed, 10 seconds later: it
    may be stopped, and each request would take as long as is allowed.
    """

    def __init__(self, peers: Peers, algorithm: str, http: LateClient) -> None:
        self._peers = peers
        self._algorithm = algorithm
        self._http = http
        self._lock = threading.Lock()
        self._late: dict[str, Future[httpx.Response]] = {}

    def ask(self, urls: Collection[str], path: str, within_s: float) -> Mapping[str, bytes]:
        """Return the bodies of the answers to `GET path` by worker, without those that fail or come later than this."""
        asked = {url: sending for url in urls if (sending := self._begin(url, path)) is not None}
        done, late = wait(asked.values(), within_s)
        with self._lock:
            known = self._late | {url: sending for url, sending in asked.items() if sending in late}
            self._late = {url: sending for url, sending in known.items() if not sending.done()}  # some have left
        return {url: body for url, each in asked.items() if each in done and (body := _body(url, each)) is not None}

    def _begin(self, url: str, path: str) -> "Future[httpx.Response] | None":
        with self._lock:
            late = self._late.get(url)
            if late is not None and not late.done():
                return None
            self._late.pop(url, None)
        headers = self._peers.signed(url, self._algorithm, "GET", path, b"")
        if headers is None:
            return None
        client = self._http.get()
        return begun(lambda: client.get(url.rstrip("/") + path, headers=headers, timeout=_GIVEN_UP_S))


def _body(url: str, sending: "Future[httpx.Response]") -> bytes | None:
    error = sending.exception()
    if error is not None:
        log.debug("%s does not answer: %r", url, error)
        return None
    answer = sending.result()
    if answer.status_code != 200:
        log.debug("%s answers %d: %s", url, answer.status_code, answer.text)
        return None
    return answer.content
