"""`ClusterSnapshot`: the content of the config topic as frozen values, and the builder that folds its records.

The rules are those of Kafka Connect's reader, including those for compaction: a compacted topic may have lost task
configs, the connector they belonged to, or both, but never the last record of a key.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from fencepost.config.reference import RawConfig
from fencepost.storage.assigned import AssignmentBuilder
from fencepost.storage.change import (
    Assignment,
    Change,
    ConnectorConfigRemoved,
    ConnectorConfigUpdated,
    SessionKey,
    TargetState,
    TaskConfigsUpdated,
    TaskId,
    TopicRetention,
    WorkerAbilities,
    WorkerAssignment,
)

_EMPTY: Mapping[Any, Any] = MappingProxyType({})


_ABLE = WorkerAbilities()
_BY_CONNECTOR = (
    "connectors", "target_states", "task_configs", "task_counts", "generations", "commit_offsets", "applied_configs",
    "task_count_records", "producer_targets",
)  # fmt: skip


def _empty() -> Any:
    return _EMPTY


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The config topic up to, not including, `offset`. Its mappings never change.

    Attributes:
        task_configs: the configs of the applied task generation of each connector, by number.
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
        abilities: what the process at each worker's URL has said of itself.
        inconsistent: connectors whose newest task configs are incomplete; they must be reconfigured.
        retention: the stored facts about each topic whose committed records are deleted.
    """

    offset: int = 0
    connectors: Mapping[str, RawConfig] = field(default_factory=_empty)
    target_states: Mapping[str, TargetState] = field(default_factory=_empty)
    task_configs: Mapping[str, Mapping[int, RawConfig]] = field(default_factory=_empty, repr=False)
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
    abilities: Mapping[str, WorkerAbilities] = field(default_factory=_empty)
    retention: Mapping[str, TopicRetention] = field(default_factory=_empty)
    session_key: SessionKey | None = None
    assignment: Assignment | None = None

    def only(self, connector: str) -> "ClusterSnapshot":
        """Return the parts of one connector, to decide about it in a time that does not grow with the others."""
        parts: dict[str, Any] = {}
        for each in _BY_CONNECTOR:
            part = getattr(self, each)
            found = {connector: part[connector]} if connector in part else {}
            parts[each] = MappingProxyType(found)
        own = frozenset({connector})
        pending, inconsistent = self.pending_fencing & own, self.inconsistent & own
        return replace(self, pending_fencing=pending, inconsistent=inconsistent, assignment=None, **parts)

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
        return self.task_configs.get(task.connector, _EMPTY).get(task.task)

    def generation(self, connector: str) -> int | None:
        """Return the task generation as this reader counts it, from 0; None before the first."""
        return self.generations.get(connector)

    def is_ready(self, connector: str) -> bool:
        """Return whether a task-count record follows the newest task configs, so that the tasks may start."""
        return connector in self.task_count_records and connector not in self.pending_fencing


class SnapshotBuilder:
    """The mutable counterpart of a snapshot. It has one method per kind of record; call them in the topic's order.

    It continues from a snapshot, at a point without half-written task configs. Each part of the snapshot is copied when
    it first changes after a `freeze`; the parts that do not change stay the same objects. Not thread-safe.
    """

    def __init__(self, last: ClusterSnapshot | None = None) -> None:
        self._last = last or ClusterSnapshot()
        self.offset = self._last.offset
        self.session_key = self._last.session_key
        self.assigned = AssignmentBuilder(self._last.assignment)
        self._changed: dict[str, Any] = {}  # the parts that have changed since `_last`, by field
        self._deferred: dict[str, dict[int, RawConfig]] = {}

    def put_connector(self, connector: str, properties: RawConfig) -> Change:
        self._edit("connectors")[connector] = MappingProxyType(dict(properties))
        self._edit("target_states").setdefault(connector, TargetState.STARTED)
        return ConnectorConfigUpdated(connector)

    def remove_connector(self, connector: str) -> Change:
        """Remove a connector. Its task-count record and generation stay, to fence tasks before a successor starts."""
        self._edit("connectors").pop(connector, None)
        self._edit("task_counts").pop(connector, None)
        self._deferred.pop(connector, None)
        self._edit("inconsistent").discard(connector)
        self._edit("task_configs").pop(connector, None)
        return ConnectorConfigRemoved(connector)

    def put_target_state(self, connector: str, state: TargetState | None) -> bool:
        """Set or remove a connector's target state. Returns whether it has changed."""
        before = self._part("target_states").get(connector)
        if state is None and connector in self._part("connectors"):
            state = TargetState.STARTED
        self._put("target_states", connector, state)
        return before is not state

    def defer_task(self, task: TaskId, properties: RawConfig) -> None:
        """Keep a task config until the commit record."""
        self._deferred.setdefault(task.connector, {})[task.task] = MappingProxyType(dict(properties))

    def commit_tasks(self, connector: str, tasks: int, offset: int) -> Change | None:
        """Apply the deferred task configs if all are present. Returns None for an unknown connector.

        1. An unknown connector: older task configs that survived the compaction of its deletion.
        2. Incomplete: compaction has removed some. The previously applied configs stay, but are not used.
        3. Complete. Numbers above `tasks` may remain for the same reason, so additional configs are ignored.
        """
        config = self._part("connectors").get(connector)
        if config is None:  # 1.
            self.remove_connector(connector)
            return None
        deferred = self._deferred.get(connector)
        if not (deferred or {}).keys() >= set(range(tasks)):  # 2.
            self._edit("inconsistent").add(connector)
        else:  # 3.
            if deferred is not None:
                self._apply(connector, deferred)
            self._edit("inconsistent").discard(connector)
            self._edit("task_counts")[connector] = tasks
        if deferred is not None:
            deferred.clear()
        self._edit("commit_offsets")[connector] = offset
        self._edit("applied_configs")[connector] = config
        self._edit("pending_fencing").add(connector)
        return TaskConfigsUpdated(connector)

    def record_task_count(self, connector: str, count: int) -> None:
        self._edit("task_count_records")[connector] = count
        self._edit("pending_fencing").discard(connector)

    def put_producer_targets(self, connector: str, targets: tuple[RawConfig, ...] | None) -> None:
        """Set the producer targets. Like the task count, they outlive the connector: a successor fences with them."""
        frozen = None if targets is None else tuple(MappingProxyType(dict(each)) for each in targets)
        self._put("producer_targets", connector, frozen)

    def set_logger_level(self, namespace: str, level: str) -> None:
        self._edit("logger_levels")[namespace] = level

    def set_incarnation(self, url: str, incarnation: str | None, abilities: WorkerAbilities = _ABLE) -> None:
        if incarnation is not None and self._part("left").get(url) == incarnation:
            return  # written before it left, delivered after
        self._put("incarnations", url, incarnation)
        self._put("abilities", url, None if incarnation is None else abilities)

    def leave(self, url: str, incarnation: str) -> None:
        self._edit("left")[url] = incarnation
        if self._part("incarnations").get(url) == incarnation:
            self.set_incarnation(url, None)

    def put_retention(self, topic: str, retention: TopicRetention | None) -> None:
        self._put("retention", topic, retention)

    def freeze(self) -> ClusterSnapshot:
        parts: dict[str, Any] = {
            name: frozenset(part) if isinstance(part, set) else MappingProxyType(part)
            for name, part in self._changed.items()
        }
        self._changed = {}
        self._last = replace(
            self._last, offset=self.offset, session_key=self.session_key, assignment=self.assigned.freeze(), **parts
        )
        return self._last

    def _apply(self, connector: str, deferred: Mapping[int, RawConfig]) -> None:
        before = self._part("task_configs").get(connector, _EMPTY)
        self._edit("task_configs")[connector] = MappingProxyType({**before, **deferred})
        # Once a connector has had tasks, an empty set is a generation too: its tasks must end.
        generations = self._edit("generations")
        generations[connector] = generations.get(connector, -1) + 1

    def _put(self, name: str, key: str, value: object) -> None:
        self._edit(name).pop(key, None) if value is None else self._edit(name).update({key: value})

    def _part(self, name: str) -> Any:
        return self._changed.get(name, getattr(self._last, name))

    def _edit(self, name: str) -> Any:
        if name not in self._changed:
            part = getattr(self._last, name)
            self._changed[name] = set(part) if isinstance(part, frozenset) else part.copy()
        return self._changed[name]
