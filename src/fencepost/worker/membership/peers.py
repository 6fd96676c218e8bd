"""The other workers of the cluster: which one leads, and which one runs what."""

import logging
import uuid
from collections.abc import Callable
from typing import Protocol

from fencepost.cluster.command import now_ms
from fencepost.cluster.info import LEADER, Place
from fencepost.cluster.leadership import Leadership
from fencepost.cluster.session_key import signed_headers
from fencepost.kafka.group.group_admin import Group
from fencepost.storage.change import WorkerAssignment
from fencepost.storage.ids import TaskId
from fencepost.storage.snapshot import ClusterSnapshot

log = logging.getLogger(__name__)


class SnapshotSource(Protocol):
    """The part of `ConfigTopic` that is needed here."""

    @property
    def snapshot(self) -> ClusterSnapshot: ...


class Peers:
    """Answers from the current state of the group and the config topic. Any thread."""

    def __init__(
        self,
        url: str,
        group: Callable[[], Group],
        topic: SnapshotSource,
        leader: Leadership,
    ) -> None:
        """`group` asks Kafka for the group, and raises any error that prevents an answer."""
        self.url = url
        self._group = group
        self._topic = topic
        self._leader = leader

    def group(self) -> Group:
        """Return the group as its coordinator knows it. Raises any error that prevents an answer."""
        return self._group()

    def roster(self) -> list[str]:
        """Return the URLs of the group's members."""
        return [member.client_id for member in self._group().members]

    def leader_url(self) -> str | None:
        """Return the leader's address; None during a rebalance, or if Kafka does not answer."""
        if self._leader.is_leading:
            return self.url
        try:
            members = self._group().members
        except Exception as error:
            log.warning("the leader cannot be determined: %s", error)
            return None
        return next((m.client_id for m in members if m.topic_partitions), None)

    def incarnation(self, url: str) -> str | None:
        """Return the incarnation of the process at `url`."""
        return self._topic.snapshot.incarnations.get(url)

    def signed(self, url: str, algorithm: str, method: str, path: str, body: bytes) -> dict[str, str] | None:
        """Return the headers with which the worker at `url` accepts a request once.

        None if its incarnation, or the key that signs requests between workers, has not been read yet.
        """
        audience, key = self.incarnation(url), self._topic.snapshot.session_key
        if audience is None or key is None:
            return None
        nonce = uuid.uuid4().hex
        return signed_headers(key, algorithm, method, path, body, audience=audience, time_ms=now_ms(), nonce=nonce)

    def locate(self, place: Place) -> str | None:
        """Return the address of the worker that is responsible for `place`; None if there is none."""
        if place == LEADER:
            return self.leader_url()
        assignment = self._topic.snapshot.assignment
        workers = assignment.workers if assignment is not None else ()
        return next((worker.url for worker in workers if _has(worker, place)), None)


def _has(worker: WorkerAssignment, place: Place) -> bool:
    if place.connector is None:
        return False
    if place.task is None:
        return place.connector in worker.connectors
    return TaskId(place.connector, place.task) in worker.tasks
