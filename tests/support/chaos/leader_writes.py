"""The leader's kinds of writes: what causes each, and which records it consists of."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from fencepost.storage import records
from fencepost.storage.change import SessionKey, TargetState
from fencepost.storage.config_topic import TopicWriter
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.testing import eventually
from support.chaos.cluster_fault import Write
from support.chaos.gated_cluster import GatedCluster
from support.chaos.insistence import Request
from support.chaos.load import CountedLoad, Load
from support.worker import Worker

_WRITE_S = 15.0
_FEWEST, _MOST = 2, 5


@dataclass(frozen=True)
class Asked:
    """A write that is asked for.

    Attributes:
        key: stands in its records.
        request: asks a worker for it; None: it comes by itself.
        is_there: whether all of it can be seen.
        undo: what makes `touched` run again, for a write that ends it.
    """

    key: str
    request: Request | None
    is_there: Callable[[ClusterSnapshot], bool]
    undo: Request | None = None
    touched: Load | None = None


class LeaderWrites:
    """Requests writes about `elastic`, which is rescaled, and `brief`, which is stopped, deleted and created again."""

    def __init__(self, gated: GatedCluster, bootstrap: str, elastic: CountedLoad, brief: Load) -> None:
        self._gated = gated
        self.elastic = elastic
        self._brief = brief
        self._numbers = itertools.count(1)
        self._old_keys = TopicWriter({"bootstrap.servers": bootstrap}, f"{gated.group}-configs")

    def asked(self, write: Write, choice: float) -> Asked:
        """Return how to ask for a write. A new number of tasks counts from now on."""
        elastic, brief = self.elastic.name, self._brief.name
        if write is Write.CONFIG:
            number = str(next(self._numbers))
            return Asked(
                f"connector-{elastic}",
                self.patch({"chaos.note": number}),
                lambda snapshot: snapshot.connectors[elastic].get("chaos.note") == number,
            )
        if write in (Write.TASKS, Write.COUNT):
            key = f"task-{elastic}-" if write is Write.TASKS else f"tasks-fencing-{elastic}"
            return Asked(key, self.rescale(choice), self._is_rescaled)
        if write is Write.TARGET:
            return Asked(
                f"target-state-{brief}",
                lambda via: via.rest.put(f"/connectors/{brief}/stop"),
                lambda snapshot: snapshot.target_state(brief) is TargetState.STOPPED and not snapshot.tasks(brief),
                lambda via: via.rest.put(f"/connectors/{brief}/resume"),
                self._brief,
            )
        if write is Write.DELETE:
            return Asked(
                f"connector-{brief}",
                lambda via: via.rest.delete(f"/connectors/{brief}"),
                lambda snapshot: brief not in snapshot.connectors and brief not in snapshot.target_states,
                lambda via: via.create(brief, self._brief.config()),
                self._brief,
            )
        if write is Write.CREATE:
            return self._create()
        if write is Write.RESTART:
            restart = f"/connectors/{elastic}/restart"
            every = {"includeTasks": "true", "onlyFailed": "false"}
            return Asked(
                f"restart-connector-{elastic}",
                lambda via: via.rest.post(restart, params=every),
                lambda snapshot: True,  # who answers that it is accepted has written it; it is in no snapshot
                touched=self.elastic,
            )
        if write is Write.KEY:
            return Asked(
                records.SESSION_KEY, None, lambda s: s.session_key is not None and s.session_key.created_ms > 1
            )
        generation = self._generation(self._gated.snapshot())
        return Asked(records.ASSIGNMENT, None, lambda s: self._generation(s) > generation)

    def _create(self) -> Asked:
        """A further connector, stopped, whose offsets are in the same transaction: both are there, or neither."""
        name = f"newborn-{next(self._numbers)}"
        offsets = [{"partition": {"filename": "never.txt"}, "offset": {"position": 42}}]
        config = {"connector.class": "FileStreamSource", "file": "never.txt", "topic": name}
        asked_of: list[Worker] = []

        def create(via: Worker) -> httpx.Response:
            asked_of.append(via)
            return via.create(name, config, initial_state="STOPPED", initial_offsets=offsets)

        def is_there(snapshot: ClusterSnapshot) -> bool:
            if name not in snapshot.connectors or snapshot.target_state(name) is not TargetState.STOPPED:
                return False
            found = asked_of[-1].rest.get(f"/connectors/{name}/offsets").json()["offsets"]
            assert found == offsets, "a part of the write is missing"
            return True

        return Asked(f"connector-{name}", create, is_there, lambda via: via.rest.delete(f"/connectors/{name}"))

    def rescale(self, choice: float) -> Request:
        """Give the elastic connector another number of tasks."""
        others = [n for n in range(_FEWEST, _MOST + 1) if n != self.elastic.tasks]
        self.elastic.tasks = others[int(choice * len(others))]
        return self.patch({"tasks.max": str(self.elastic.tasks)})

    def next_write(self) -> Request:
        """Any further write of the leader."""
        return self.patch({"chaos.note": str(next(self._numbers))})

    def patch(self, changes: Mapping[str, Any]) -> Request:
        return lambda via: via.rest.patch(f"/connectors/{self.elastic.name}/config", json=dict(changes))

    def let_key_expire(self) -> None:
        """Make the session key old, as in an hour; it stays the same until the leader renews it."""
        key = self._gated.snapshot().session_key
        assert key is not None
        self._old_keys.write([records.session_key(SessionKey(key.key, key.algorithm, 1))], _WRITE_S)

    def _is_rescaled(self, snapshot: ClusterSnapshot) -> bool:
        name = self.elastic.name
        return len(snapshot.tasks(name)) == self.elastic.tasks and snapshot.is_ready(name)

    @staticmethod
    def _generation(snapshot: ClusterSnapshot) -> int:
        return snapshot.assignment.generation if snapshot.assignment else 0


def await_there(gated: GatedCluster, asked: Asked, within_s: float) -> None:
    """Wait until all of a write can be seen."""
    eventually(lambda: asked.is_there(gated.snapshot()), within_s=within_s, every_s=0.1)
