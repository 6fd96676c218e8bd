"""Admission of tasks that have initialised their producers: steps 6 and 7 of docs/architecture.md."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from fencepost.cluster.info import ConnectorType
from fencepost.kafka.errors import KafkaAuthorizationError
from fencepost.storage.change import TaskId
from fencepost.storage.offset_view import OffsetTopic, OffsetTopics, OffsetView
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.task.channel.message import Admission, AdmissionRequest
from fencepost.worker.plan import type_of
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervision.offset import read_offsets
from fencepost.worker.supervision.task.handle import HandleState, TaskHandle
from fencepost.worker.supervision.task.specs import check_current

log = logging.getLogger(__name__)

_READ_S = 100.0


class Admissions:
    """Decides whether a start may run, after every `init_transactions`. Called on threads of the channel."""

    def __init__(
        self,
        settings: WorkerSettings,
        read_to_end: Callable[[float], ClusterSnapshot],
        handle_of: Callable[[TaskId], TaskHandle | None],
    ) -> None:
        self._settings = settings
        self._read_to_end = read_to_end
        self._handle_of = handle_of
        self.topics = OffsetTopics(OffsetTopic(settings.config.offset_storage_topic, settings.reader_conf()))

    def admit(self, body: dict[str, Any]) -> dict[str, Any]:
        """Answer the channel's `/task/admit`."""
        asked = AdmissionRequest.from_json(body)
        try:
            task = TaskId(asked.connector, asked.task)
            start = task, asked.generation, asked.incarnation
            admission = self.decide(*start, wants_offsets=asked.wants_offsets, ledger=asked.ledger)
        except KafkaAuthorizationError as error:  # the task's next start would meet the same
            admission = Admission(False, failure=str(error))
        return admission.to_json()

    def decide(
        self, task: TaskId, generation: int, incarnation: str, *, wants_offsets: bool = True, ledger: str = ""
    ) -> Admission:
        """Admit a start of a task that is assigned to this worker, if start and task generation are the newest."""
        snapshot = self._read_to_end(_READ_S)  # step 6: to the end, after the init
        reason = self._refusal(snapshot, task, generation, incarnation)
        if reason is not None:
            log.info("task %s (%s) is not admitted: %s", task, incarnation, reason)
            return Admission(False, reason)
        if not wants_offsets or type_of(snapshot, task.connector) is ConnectorType.SINK:
            return Admission(True)  # the position of a sink is kept by its group
        return self.with_offsets(snapshot, task, ledger)  # step 7, E3: only after the init, only if admitted

    def with_offsets(self, snapshot: ClusterSnapshot, task: TaskId, ledger: str) -> Admission:
        """Return the admission of a start whose predecessors are fenced: the offsets, and what its ledger inherits.

        `ledger` is the ledger's topic; empty if it has none.
        """
        view = self.view(snapshot, task.connector)
        offsets = tuple((dict(p or {}), dict(o)) for p, o in view.offsets)
        spellings = tuple((dict(p or {}), key.decode()) for p, key in view.spellings)
        carried: Mapping[int, bytes] = {}
        if ledger:
            own = self._settings.own_offsets(self._settings.plan(snapshot.connectors.get(task.connector, {})))
            carried = self.topics.carried(task.connector, own, task.task, ledger)
        return Admission(True, "", offsets, spellings, carried=tuple(carried.items()))

    def view(self, snapshot: ClusterSnapshot, connector: str, *, may_be_missing: bool = False) -> OffsetView:
        """Return the connector's committed offsets: from its group, or from its own topic first, then the worker's."""
        config = snapshot.connectors.get(connector, {})
        return read_offsets(
            self._settings,
            self.topics,
            connector,
            config,
            _READ_S,
            tasks=list(snapshot.task_configs.get(connector, {}).values()),
            may_be_missing=may_be_missing,
        )

    def close(self) -> None:
        self.topics.close()

    def _refusal(self, snapshot: ClusterSnapshot, task: TaskId, generation: int, incarnation: str) -> str | None:
        handle = self._handle_of(task)
        if handle is None or handle.incarnation != incarnation:
            return "a newer start of the task has replaced this one"
        if handle.state is not HandleState.HOSTED:
            return f"the task is {handle.state.value}"
        return check_current(snapshot, self._settings, task, generation)
