"""Admission of tasks that have initialised their producers: steps 6 and 7 of DESIGN 2."""

import logging
import threading
from collections.abc import Callable
from typing import Any

from fencepost.storage.ids import TaskId
from fencepost.storage.offset_topic import OffsetReader, StoredOffset, merge
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.task.spec import Admission
from fencepost.worker.preparation import check_current
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.task_handle import HandleState, TaskHandle

log = logging.getLogger(__name__)

_READ_S = 100.0


class Admissions:
    """Answers "may I?" after every `init_transactions`. Called on threads of the channel."""

    def __init__(
        self,
        settings: WorkerSettings,
        read_to_end: Callable[[float], ClusterSnapshot],
        handle_of: Callable[[TaskId], TaskHandle | None],
    ) -> None:
        self._settings = settings
        self._read_to_end = read_to_end
        self._handle_of = handle_of
        self._lock = threading.Lock()
        self._readers: dict[tuple[Any, ...], OffsetReader] = {}

    def admit(self, body: dict[str, Any]) -> dict[str, Any]:
        """The channel's `/task/admit`."""
        task = TaskId(body["connector"], body["task"])
        admission = self.decide(task, body["generation"], body["incarnation"])
        return {
            "is_admitted": admission.is_admitted,
            "reason": admission.reason,
            "offsets": [[p, o] for p, o in admission.offsets],
        }

    def decide(self, task: TaskId, generation: int, incarnation: str) -> Admission:
        """Admit a start if its generation is the newest, it is assigned here, and it is the newest start here."""
        snapshot = self._read_to_end(_READ_S)  # step 6: to the end, after the init
        reason = self._refusal(snapshot, task, generation, incarnation)
        if reason is not None:
            log.info("task %s (%s) is not admitted: %s", task, incarnation, reason)
            return Admission(False, reason)
        offsets = self.offsets(snapshot, task.connector)  # step 7, E3: only after the init, only if admitted
        return Admission(True, "", tuple((dict(p or {}), dict(o)) for p, o in offsets))

    def offsets(self, snapshot: ClusterSnapshot, connector: str) -> list[StoredOffset]:
        """Return what the connector has committed: its own topic first, the worker's for what that has not."""
        config = snapshot.connectors.get(connector, {})
        shared = self._reader(self._settings.config.offset_storage_topic, self._settings.reader_conf())
        fallback = shared.read(connector, _READ_S)
        if not self._settings.has_own_offsets(config):
            return fallback
        own = self._reader(self._settings.offsets_topic(config), self._settings.task_reader_conf(config))
        return merge(own.read(connector, _READ_S), fallback)

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()

    def _refusal(self, snapshot: ClusterSnapshot, task: TaskId, generation: int, incarnation: str) -> str | None:
        handle = self._handle_of(task)
        if handle is None or handle.incarnation != incarnation:
            return "a newer start of the task has replaced this one"
        if handle.state is not HandleState.HOSTED:
            return f"the task is {handle.state.value}"
        return check_current(snapshot, self._settings, task, generation)

    def _reader(self, topic: str, conf: dict[str, Any]) -> OffsetReader:
        key = (topic, *sorted((k, str(v)) for k, v in conf.items()))
        with self._lock:
            if key not in self._readers:
                self._readers[key] = OffsetReader(conf, topic)
            return self._readers[key]
