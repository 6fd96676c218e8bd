"""`ClusterSnapshot`: the content of the config topic as frozen values, and the builder that folds its records.

The rules are those of Kafka Connect's reader, including those for compaction: a compacted topic may have lost task
configs, the connector they belonged to, or both, but never the last record of a key.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from fencepost.config.raw import RawConfig
from fencepost.storage.change import (
    Assignment,
    Change,
    ConnectorConfigRemoved,
    ConnectorConfigUpdated,
    SessionKey,
    TaskConfigsUpdated,
    TopicRetention,
    WorkerAssignment,
)
from fencepost.storage.ids import TargetState, TaskId

_EMPTY: Mapping[Any, Any] = MappingProxyType({})


def _empty() -> Any:
    return _EMPTY


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The config topic up to, not including, `offset`. Its mappings never change.

    Attributes:
        task_configs: the configs of the applied task generation of each connector, by task.
        task_counts: how many tasks that generation has; configs of higher numbers may linger.
        generations: the number of task generations that this reader has seen; readers' counts differ after compaction.
        commit_offsets: the offset of each connector's newest commit record. It identifies the task generation by the
            same number on every worker, whatever compaction removed.
        applied_configs: the connector's config at the time when its task generation was committed.
        task_count_records: how many producers of earlier generations may need fencing.
        producer_targets: the client properties for each cluster on which tasks of a connector may hold transactional
            ids, if a record says so.
        pending_fencing: connectors whose commit record is newer than their task-count record.
        incarnations: the newest process at each worker's URL, except for workers that have left.
        left: the last process at each worker's URL that announced its leaving; it never comes back.
        ready_workers: the URLs of workers that have a place to run tasks.
        inconsistent: connectors whose newest task configs are incomplete; they must be reconfigured.
        retention: the stored facts about each topic whose committed records are deleted.
    """

    offset: int = 0
    connectors: Mapping[str, RawConfig] = field(default_factory=_empty)
    target_states: Mapping[str, TargetState] = field(default_factory=_empty)
    task_configs: Mapping[TaskId, RawConfig] = field(default_factory=_empty, repr=False)
    task_counts: Mapping[str, int] = field(default_factory=_empty)
    generations: Mapping[str, int] = field(default_factory=_empty)
    commit_offsets: Mapping[str, int] = field(default_factory=_empty)
    applied_configs: Mapping[str, RawConfig] = field(default_factory=_empty, repr=False)
    task_count_records: Mapping[str, int] = field(default_factory=_empty)
    producer_targets: Mapping[str, tuple[RawConfig, ...]] = field(default_factory=_empty, repr=False)
    pending_fencing: frozenset[str] = frozenset()
    inconsistent: frozenset[str] = frozenset()
    logger_levels: Mapping[str, str] = field(default_factory=_empty)
    incarnations: Mapping[str, str] = field(default_factory=_empty)
    left: Mapping[str, str] = field(default_factory=_empty)
    ready_workers: frozenset[str] = frozenset()
    retention: Mapping[str, TopicRetention] = field(default_factory=_empty)
    session_key: SessionKey | None = None
    assignment: Assignment | None = None

    def assigned_to(self, incarnation: str) -> WorkerAssignment | None:
        """Return the assignment of one process of a worker; None if the assignment does not include it."""
        return None if self.assignment is None else self.assignment.of(incarnation)

    def target_state(self, connector: str) -> TargetState:
        return self.target_states.get(connector, TargetState.STARTED)

    def tasks(self, connector: str) -> tuple[TaskId, ...]:
        """Return the tasks of the connector; empty while it is inconsistent."""
        if connector in self.inconsistent:
            return ()
        return tuple(TaskId(connector, n) for n in range(self.task_counts.get(connector, 0)))

    def has_task(self, task: TaskId) -> bool:
        """Return whether a task is among the `tasks` of its connector, without building that tuple."""
        return task.connector not in self.inconsistent and 0 <= task.task < self.task_counts.get(task.connector, 0)

    def task_config(self, task: TaskId) -> RawConfig | None:
        return self.task_configs.get(task)

    def generation(self, connector: str) -> int | None:
        """Return the task generation as this reader counts it, from 0; None before the first."""
        return self.generations.get(connector)

    def is_ready(self, connector: str) -> bool:
        """Return whether a task-count record follows the newest task configs, so that the tasks may start."""
        return connector in self.task_count_records and connector not in self.pending_fencing


class SnapshotBuilder:
    """The mutable counterpart of a snapshot. It has one method per kind of record; call them in the topic's order.

    `freeze` copies only what has changed since the last one. Not thread-safe.
    """

    def __init__(self) -> None:
        self.offset = 0
        self.session_key: SessionKey | None = None
        self.assignment: Assignment | None = None
        self._connectors: dict[str, RawConfig] = {}
        self._target_states: dict[str, TargetState] = {}
        self._deferred: dict[str, dict[int, RawConfig]] = {}
        self._task_configs: dict[TaskId, RawConfig] = {}
        self._task_numbers: dict[str, set[int]] = {}
        self._task_counts: dict[str, int] = {}
        self._generations: dict[str, int] = {}
        self._commit_offsets: dict[str, int] = {}
        self._applied_configs: dict[str, RawConfig] = {}
        self._task_count_records: dict[str, int] = {}
        self._producer_targets: dict[str, tuple[RawConfig, ...]] = {}
        self._pending_fencing: set[str] = set()
        self._inconsistent: set[str] = set()
        self._logger_levels: dict[str, str] = {}
        self._incarnations: dict[str, str] = {}
        self._left: dict[str, str] = {}
        self._ready_workers: set[str] = set()
        self._retention: dict[str, TopicRetention] = {}
        self._frozen: dict[str, Any] = {}

    @classmethod
    def of(cls, snapshot: ClusterSnapshot) -> "SnapshotBuilder":
        """Return a builder that continues from a snapshot, at a point without half-written task configs."""
        builder = cls()
        builder.offset = snapshot.offset
        builder.session_key, builder.assignment = snapshot.session_key, snapshot.assignment
        builder._connectors.update(snapshot.connectors)
        builder._target_states.update(snapshot.target_states)
        builder._task_configs.update(snapshot.task_configs)
        for task in snapshot.task_configs:
            builder._task_numbers.setdefault(task.connector, set()).add(task.task)
        builder._task_counts.update(snapshot.task_counts)
        builder._generations.update(snapshot.generations)
        builder._commit_offsets.update(snapshot.commit_offsets)
        builder._applied_configs.update(snapshot.applied_configs)
        builder._task_count_records.update(snapshot.task_count_records)
        builder._producer_targets.update(snapshot.producer_targets)
        builder._pending_fencing.update(snapshot.pending_fencing)
        builder._inconsistent.update(snapshot.inconsistent)
        builder._logger_levels.update(snapshot.logger_levels)
        builder._incarnations.update(snapshot.incarnations)
        builder._left.update(snapshot.left)
        builder._ready_workers.update(snapshot.ready_workers)
        builder._retention.update(snapshot.retention)
        return builder

    def put_connector(self, connector: str, properties: RawConfig) -> Change:
        self._connectors[connector] = MappingProxyType(dict(properties))
        self._target_states.setdefault(connector, TargetState.STARTED)
        self._touch("connectors", "target_states")
        return ConnectorConfigUpdated(connector)

    def remove_connector(self, connector: str) -> Change:
        """Remove a connector. Its task-count record and generation stay, to fence tasks before a successor starts."""
        self._connectors.pop(connector, None)
        self._task_counts.pop(connector, None)
        self._deferred.pop(connector, None)
        self._inconsistent.discard(connector)
        for number in self._task_numbers.pop(connector, ()):
            self._task_configs.pop(TaskId(connector, number), None)
        self._touch("connectors", "task_counts", "task_configs", "inconsistent")
        return ConnectorConfigRemoved(connector)

    def put_target_state(self, connector: str, state: TargetState) -> bool:
        """Set a connector's target state. Returns whether it has changed."""
        self._touch("target_states")
        before = self._target_states.get(connector)
        self._target_states[connector] = state
        return before is not state

    def remove_target_state(self, connector: str) -> None:
        self._touch("target_states")
        self._target_states.pop(connector, None)
        if connector in self._connectors:
            self._target_states[connector] = TargetState.STARTED

    def defer_task(self, task: TaskId, properties: RawConfig) -> None:
        """Keep a task config until the commit record."""
        self._deferred.setdefault(task.connector, {})[task.task] = MappingProxyType(dict(properties))

    def commit_tasks(self, connector: str, tasks: int, offset: int) -> Change | None:
        """Apply the deferred task configs if all are present. Returns None for an unknown connector.

        1. An unknown connector: older task configs that survived the compaction of its deletion.
        2. Incomplete: compaction has removed some. The previously applied configs stay, but are not used.
        3. Complete. Numbers above `tasks` may remain for the same reason, so additional configs are ignored.
        """
        if connector not in self._connectors:  # 1.
            self.remove_connector(connector)
            return None
        deferred = self._deferred.get(connector)
        if not (deferred or {}).keys() >= set(range(tasks)):  # 2.
            self._inconsistent.add(connector)
        else:  # 3.
            if deferred is not None:
                self._apply(connector, deferred)
            self._inconsistent.discard(connector)
            self._task_counts[connector] = tasks
        if deferred is not None:
            deferred.clear()
        self._commit_offsets[connector] = offset
        self._applied_configs[connector] = self._connectors[connector]
        self._pending_fencing.add(connector)
        self._touch("inconsistent", "task_counts", "commit_offsets", "applied_configs", "pending_fencing")
        return TaskConfigsUpdated(connector)

    def record_task_count(self, connector: str, count: int) -> None:
        self._task_count_records[connector] = count
        self._pending_fencing.discard(connector)
        self._touch("task_count_records", "pending_fencing")

    def put_producer_targets(self, connector: str, targets: tuple[RawConfig, ...] | None) -> None:
        """Set the producer targets. Like the task count, they outlive the connector: a successor fences with them."""
        if targets is None:
            self._producer_targets.pop(connector, None)
        else:
            self._producer_targets[connector] = tuple(MappingProxyType(dict(each)) for each in targets)
        self._touch("producer_targets")

    def set_logger_level(self, namespace: str, level: str) -> None:
        self._logger_levels[namespace] = level
        self._touch("logger_levels")

    def set_incarnation(self, url: str, incarnation: str, *, is_ready: bool = True) -> None:
        if self._left.get(url) == incarnation:
            return  # written before it left, delivered after
        self._incarnations[url] = incarnation
        self._ready_workers.add(url) if is_ready else self._ready_workers.discard(url)
        self._touch("incarnations", "ready_workers")

    def leave(self, url: str, incarnation: str) -> None:
        self._left[url] = incarnation
        self._touch("left")
        if self._incarnations.get(url) == incarnation:
            self.remove_incarnation(url)

    def remove_incarnation(self, url: str) -> None:
        self._incarnations.pop(url, None)
        self._ready_workers.discard(url)
        self._touch("incarnations", "ready_workers")

    def put_retention(self, topic: str, retention: TopicRetention | None) -> None:
        if retention is None:
            self._retention.pop(topic, None)
        else:
            self._retention[topic] = retention
        self._touch("retention")

    def freeze(self) -> ClusterSnapshot:
        return ClusterSnapshot(
            offset=self.offset,
            connectors=self._mapping("connectors", self._connectors),
            target_states=self._mapping("target_states", self._target_states),
            task_configs=self._mapping("task_configs", self._task_configs),
            task_counts=self._mapping("task_counts", self._task_counts),
            generations=self._mapping("generations", self._generations),
            commit_offsets=self._mapping("commit_offsets", self._commit_offsets),
            applied_configs=self._mapping("applied_configs", self._applied_configs),
            task_count_records=self._mapping("task_count_records", self._task_count_records),
            producer_targets=self._mapping("producer_targets", self._producer_targets),
            pending_fencing=self._set("pending_fencing", self._pending_fencing),
            inconsistent=self._set("inconsistent", self._inconsistent),
            logger_levels=self._mapping("logger_levels", self._logger_levels),
            incarnations=self._mapping("incarnations", self._incarnations),
            left=self._mapping("left", self._left),
            ready_workers=self._set("ready_workers", self._ready_workers),
            retention=self._mapping("retention", self._retention),
            session_key=self.session_key,
            assignment=self.assignment,
        )

    def _apply(self, connector: str, deferred: Mapping[int, RawConfig]) -> None:
        for number, properties in deferred.items():
            self._task_configs[TaskId(connector, number)] = properties
        self._task_numbers.setdefault(connector, set()).update(deferred)
        # Once a connector has had tasks, an empty set is a generation too: its tasks must end.
        self._generations[connector] = self._generations.get(connector, -1) + 1
        self._touch("task_configs", "generations")

    def _touch(self, *parts: str) -> None:
        for part in parts:
            self._frozen.pop(part, None)

    def _mapping(self, part: str, current: dict[Any, Any]) -> Mapping[Any, Any]:
        if part not in self._frozen:
            self._frozen[part] = MappingProxyType(dict(current))
        frozen: Mapping[Any, Any] = self._frozen[part]
        return frozen

    def _set(self, part: str, current: set[str]) -> frozenset[str]:
        if part not in self._frozen:
            self._frozen[part] = frozenset(current)
        frozen: frozenset[str] = self._frozen[part]
        return frozen
