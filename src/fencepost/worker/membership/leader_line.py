"""A worker's requests to the leader, wherever it runs: to store task configs, and to fence.

On the leader itself this is a call; from other workers it is a signed request (KIP-507, KIP-618). The leader is looked
up for each attempt, and passing errors are retried: there is no leader yet, it has just gone, or a key was renewed. The
wait for an answer ends when the leader changes: one that hangs would never answer.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from fencepost.cluster.command import PutTaskConfigs
from fencepost.cluster.errors import (
    BadRequestError,
    ConflictError,
    FencingRefusedError,
    ForbiddenError,
    NotFoundError,
    NotLeadingError,
    OperationError,
    RequestTimeoutError,
    error_message,
)
from fencepost.cluster.leader import Leader
from fencepost.cluster.operations import LEADER_LOOK_S, LEADER_RETRY_S, REQUEST_S
from fencepost.cluster.rounds import FencingRounds
from fencepost.cluster.threads import ThreadsByKey
from fencepost.config.reference import RawConfig
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.membership.peers import LateClient, Peers, begun

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)

_READ_S = 10.0
_FORBIDDEN_TRIES = 5
_FENCE = "/fence"
_ERRORS = {400: BadRequestError, 403: ForbiddenError, 404: NotFoundError, 409: ConflictError}


@dataclass(frozen=True)
class LocalLeader:
    """The requests that the leader in this process carries out while it leads."""

    leader: Leader
    rounds: FencingRounds
    is_exactly_once: bool

    @property
    def is_leading(self) -> bool:
        return self.leader.is_leading

    def put_task_configs(self, connector: str, configs: Sequence[RawConfig]) -> "Future[Any]":
        """Store task configs, if they differ from the current ones."""
        return self.leader.submit(PutTaskConfigs(connector, configs, self.is_exactly_once))

    def fence(self, connector: str) -> "Future[None]":
        """Begin a round of fencing."""
        return self.rounds.fence(connector)


class LeaderLine:
    """Sends requests to the leader. Futures hold None, or the leader's OperationError. Thread-safe."""

    def __init__(
        self,
        local: LocalLeader,
        peers: Peers,
        algorithm: str,
        read_to_end: Callable[[float], ClusterSnapshot],
        http: LateClient,
    ) -> None:
        self._local = local
        self._peers = peers
        self._algorithm = algorithm
        self._read_to_end = read_to_end
        self._http = http
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._asking = ThreadsByKey(1, "leader-line")
        self._rounds: dict[str, Future[Any]] = {}  # the last request for each connector

    def put_task_configs(self, connector: str, configs: Sequence[RawConfig]) -> "Future[Any]":
        """Let the leader store task configs, if they differ from the current ones."""
        if self._local.is_leading:
            return self._local.put_task_configs(connector, configs)
        body = orjson.dumps([dict(config) for config in configs])
        path = f"/connectors/{quote(connector, safe='')}/tasks"
        return self._asking.submit(
            f"tasks of {connector}",
            self._ask,
            "POST",
            path,
            body,
            lambda: self._local.put_task_configs(connector, configs),
        )

    def fence(self, connector: str) -> "Future[Any]":
        """Ask for a round of fencing, or join the request in progress.

        A second request would join the same round, and block another thread of the leader. A refusal of Kafka is
        raised as a FencingRefusedError with the leader's trace.
        """
        if self._local.is_leading:
            return self._local.fence(connector)
        path = f"/connectors/{quote(connector, safe='')}{_FENCE}"
        with self._lock:
            asked = self._rounds.get(connector)
            if asked is None or asked.done():
                asked = self._rounds[connector] = self._asking.submit(
                    f"fence of {connector}", self._ask, "PUT", path, b"", lambda: self._local.fence(connector)
                )
            return asked

    def stop(self) -> None:
        self._stopping.set()
        self._asking.stop()

    def _ask(self, method: str, path: str, body: bytes, here: Callable[[], "Future[Any]"]) -> None:
        deadline, forbidden, last = time.monotonic() + REQUEST_S, 0, "there is no leader"
        while time.monotonic() < deadline and not self._stopping.is_set():
            if self._is_done_here(here):
                return
            try:
                answer = self._send(method, path, body)
            except Exception as error:  # any error on the way: the next attempt may reach another leader
                last = str(error) or repr(error)
            else:
                if answer is None:
                    last = "there is no leader"
                elif answer.status_code < 300:
                    return
                else:
                    last = error_message(answer)
                    forbidden += answer.status_code == 403
                    if answer.status_code == 403 and forbidden < _FORBIDDEN_TRIES:
                        self._read_to_end(_READ_S)  # the key was renewed
                    elif not _is_passing(answer.status_code, last):
                        raise _error(answer.status_code, last, path)
            log.debug("%s %s to the leader will be retried: %s", method, path, last)
            self._stopping.wait(LEADER_RETRY_S)
        raise RequestTimeoutError(f"The leader did not answer {method} {path} within {REQUEST_S:g} s: {last}")

    def _is_done_here(self, act: Callable[[], "Future[Any]"]) -> bool:
        """Carry out the request here if this worker leads, as it may have been elected in the meantime."""
        if not self._local.is_leading:
            return False
        try:
            act().result(REQUEST_S)
        except NotLeadingError:
            return False
        return True

    def _send(self, method: str, path: str, body: bytes) -> "httpx.Response | None":
        """Return the current leader's answer; None if there is no leader, or it loses the lead before it answers."""
        url = self._peers.leader_url()
        if url is None or url == self._peers.url:  # the latter: elected, but not informed yet
            return None
        headers = self._peers.signed(url, self._algorithm, method, path, body)
        if headers is None:
            self._read_to_end(_READ_S)
            return None
        headers["content-type"] = "application/json"
        client, whole = self._http.get(), url.rstrip("/") + path
        sending = begun(lambda: client.request(method, whole, content=body, headers=headers))
        while not wait([sending], LEADER_LOOK_S).done:
            if self._stopping.is_set() or (self._peers.leader_url() or url) != url:
                return None  # the former leader cannot carry it out any more
        return sending.result()


def _is_passing(status: int, message: str) -> bool:
    return status == 503 or (status == 409 and message == NotLeadingError.TEXT)


def _error(status: int, message: str, path: str) -> OperationError:
    if status not in _ERRORS and path.endswith(_FENCE):
        return FencingRefusedError(message)
    return _ERRORS.get(status, OperationError)(message)
