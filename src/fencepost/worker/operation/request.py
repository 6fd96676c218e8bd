"""How requests wait: for the worker that is responsible, for the leader, for Kafka. Time-outs name the stage."""

import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from typing import TypeVar

from fencepost.cluster.command import ConnectorCommand
from fencepost.cluster.errors import (
    ConflictError,
    ElsewhereError,
    NotFoundError,
    NotLeadingError,
    OperationError,
    RequestTimeoutError,
)
from fencepost.cluster.info import LEADER, Place
from fencepost.cluster.operations import REQUEST_S
from fencepost.kafka.errors import KafkaAuthorizationError, KafkaUnavailableError
from fencepost.storage.config_topic import ConfigTopic
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.membership.membership import Membership
from fencepost.worker.state import Progress

T = TypeVar("T")

log = logging.getLogger(__name__)

READ_S = 30.0
STALE = (
    "Cannot complete request momentarily due to stale configuration (typically caused by a concurrent config change)"
)
_LOOK_AGAIN_S = 0.1
_CATCH_UP_S = 5.0


class Requests:
    """Shared by all resources. Called on threads of the REST server."""

    def __init__(self, url: str, topic: ConfigTopic, membership: Membership, progress: Progress) -> None:
        self._url = url
        self._topic = topic
        self._leader, self._peers = membership.leader, membership.peers
        self._progress = progress

    @property
    def snapshot(self) -> ClusterSnapshot:
        """Return the state of the config topic as it was last read."""
        return self._topic.snapshot

    def catch_up(self) -> None:
        """Read the config topic to its end, if Kafka answers soon."""
        try:
            self._topic.read_to_end(_CATCH_UP_S)
        except Exception as error:
            log.debug("cannot catch up: %s", error)

    def known(self, name: str, text: str = "Connector {} not found") -> ClusterSnapshot:
        """Return a snapshot with the connector, reading on if needed: another worker may have just stored it.

        Raises NotFoundError with `text`.
        """
        if name not in self.snapshot.connectors:
            self.catch_up()
        snapshot = self.snapshot
        if name not in snapshot.connectors:
            raise NotFoundError(text.format(name))
        return snapshot

    def read_to_end(self) -> ClusterSnapshot:
        """Return the state at the end of the config topic. Raises Kafka's errors."""
        return self._topic.read_to_end(READ_S)

    def ensure_leading(self) -> None:
        """Return if this worker leads; wait for an election. Raises ElsewhereError."""
        self.ensure_here(LEADER, "waiting for the election of a leader")

    def ensure_here(self, place: Place, stage: str) -> None:
        """Return if this worker is responsible for `place`; wait while none is. Raises ElsewhereError."""
        deadline = time.monotonic() + REQUEST_S
        with self._progress.doing(stage):
            while True:
                url = self._leader_url() if place == LEADER else self._peers.locate(place)
                if url == self._url:
                    return
                if url is not None:
                    raise ElsewhereError(place, url)
                if time.monotonic() > deadline:
                    if not self._progress.is_started:
                        raise self.timed_out()
                    raise NotLeadingError if place == LEADER else ConflictError(STALE)
                time.sleep(_LOOK_AGAIN_S)

    def _leader_url(self) -> str | None:
        """Return the leader's URL; None also if the group has elected this worker and it has not begun to lead yet."""
        url = self._peers.leader_url()
        return None if url == self._url and not self._leader.is_leading else url

    def lead(self, command: ConnectorCommand, stage: str) -> ClusterSnapshot:
        """Let the leader write it.

        If this worker stops leading before that, raises ElsewhereError with the new leader.
        """
        deadline = time.monotonic() + REQUEST_S
        while True:
            with self.asking(stage):
                try:
                    return self.result(self._leader.submit(command), max(0.1, deadline - time.monotonic()))
                except NotLeadingError:
                    if time.monotonic() > deadline:
                        raise
            self.ensure_leading()

    def await_event(self, event: threading.Event, stage: str) -> None:
        """Return when `event` is set. Raises RequestTimeoutError."""
        with self._progress.doing(stage):
            if not event.wait(REQUEST_S):
                raise self.timed_out()

    def result(self, outcome: "Future[T]", timeout_s: float = REQUEST_S) -> T:
        """Return the result of `outcome`. Raises RequestTimeoutError."""
        try:
            return outcome.result(timeout_s)
        except FutureTimeoutError:
            raise self.timed_out() from None

    @contextmanager
    def asking(self, stage: str) -> Iterator[None]:
        """Mark a stage of a request that asks Kafka, and turn Kafka's errors into answers: a timeout, or a refusal."""
        with self._progress.doing(stage):
            try:
                yield
            except KafkaUnavailableError as error:
                log.warning("%s: %s", stage, error)
                raise self.timed_out() from error
            except KafkaAuthorizationError as error:
                raise OperationError(str(error)) from error

    def timed_out(self) -> RequestTimeoutError:
        """Return the error of a request whose time is up, with the stages that this worker is in."""
        return RequestTimeoutError(f"Request timed out. {self._progress.described()}")
