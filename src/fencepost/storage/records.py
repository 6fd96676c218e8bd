"""Records of the config topic and the status topic, as Kafka Connect writes them.

An encoder returns `(key, value)`; a value of None is a tombstone. Values are compact JSON without a schema.
"""

import base64
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from fencepost.config.reference import RawConfig
from fencepost.storage.change import (
    Assignment,
    Holder,
    RestartRequested,
    SessionKey,
    TargetState,
    TaskId,
    TopicRetention,
    WorkerAssignment,
)

Encoded = tuple[bytes, bytes | None]

CONNECTOR = "connector-"
TARGET_STATE = "target-state-"
TASK = "task-"
COMMIT = "commit-"
TASK_COUNT = "tasks-fencing-"
TASK_COUNT_OF_KIP = "tasks-count-"  # KIP-618's first name; read, never written.
SESSION_KEY = "session-key"
RESTART = "restart-connector-"
LOGGER = "logger-cluster-"
# Fencepost's own keys. Kafka Connect logs and skips keys that it does not know.
ASSIGNMENT = "fencepost-assignment"
HOLDER = "fencepost-holder-"
PLACEMENT = "fencepost-placement-"
WORKER = "fencepost-worker-"
LEFT = "fencepost-left-"
STOPPED = "fencepost-stopped-"
TARGETS = "fencepost-targets-"
RETENTION = "fencepost-retention-"

STATUS_CONNECTOR = "status-connector-"
STATUS_TASK = "status-task-"
STATUS_TOPIC = "status-topic-"
STATUS_TOPIC_CONNECTOR = ":connector-"


def connector_config(connector: str, properties: RawConfig) -> Encoded:
    return _record(CONNECTOR + connector, {"properties": dict(properties)})


def connector_removed(connector: str) -> Encoded:
    return _record(CONNECTOR + connector, None)


def target_state(connector: str, state: TargetState) -> Encoded:
    """Return the record of a target state. Workers older than STOPPED read `state`, the others read `state.v2`."""
    old = TargetState.PAUSED if state is TargetState.STOPPED else state
    return _record(TARGET_STATE + connector, {"state": old.value, "state.v2": state.value})


def target_state_removed(connector: str) -> Encoded:
    return _record(TARGET_STATE + connector, None)


def task_config(task: TaskId, properties: RawConfig) -> Encoded:
    """Return the record of a task's config. It has no effect until a `tasks_commit` follows."""
    return _record(f"{TASK}{task}", {"properties": dict(properties)})


def tasks_commit(connector: str, tasks: int) -> Encoded:
    return _record(COMMIT + connector, {"tasks": tasks})


def task_count(connector: str, count: int) -> Encoded:
    """Return the record which says that at most `count` producers of earlier task generations need fencing."""
    return _record(TASK_COUNT + connector, {"task-count": count})


def session_key(key: SessionKey) -> Encoded:
    text = base64.b64encode(key.key).decode()
    return _record(SESSION_KEY, {"key": text, "algorithm": key.algorithm, "creation-timestamp": key.created_ms})


def restart_request(request: RestartRequested) -> Encoded:
    value = {"include-tasks": request.include_tasks, "only-failed": request.only_failed}
    return _record(RESTART + request.connector, value)


def logger_level(namespace: str, level: str) -> Encoded:
    return _record(LOGGER + namespace, {"level": level})


def assignment(value: Assignment) -> Encoded:
    """Return an assignment as one record, which older workers read. Others are in several (`storage/assigned.py`)."""
    fields: dict[str, Any] = {"generation": value.generation, "workers": [_worker(w) for w in value.workers]}
    if value.waiting:
        fields["waiting"] = [{"until": w.until_ms, "worker": _worker(w.worker)} for w in value.waiting]
    return _record(ASSIGNMENT, fields)


def _worker(w: WorkerAssignment) -> dict[str, Any]:
    return {"incarnation": w.incarnation, "url": w.url, "connectors": w.connectors, "tasks": [[*t] for t in w.tasks]}


def assignment_head(generation: int, series: int, workers: Iterable[WorkerAssignment] = ()) -> Encoded:
    """Return the record that applies holders and placements. Workers that do not know these read: no work for any."""
    idle = [_worker(WorkerAssignment(w.incarnation, w.url)) for w in workers]
    return _record(ASSIGNMENT, {"generation": generation, "workers": idle, "series": series})


def holder(value: Holder, series: int) -> Encoded:
    until = {} if value.until_ms is None else {"until": value.until_ms}
    return _record(HOLDER + value.id, {"series": series, "incarnation": value.incarnation, "url": value.url, **until})


def holder_removed(value: Holder) -> Encoded:
    return _record(HOLDER + value.id, None)


def placement(connector: str, runs: str | None, tasks: Iterable[tuple[str, int]], series: int) -> Encoded:
    """Return the record of the holders, by id, of a connector and of the numbers of its tasks."""
    numbers: dict[str, list[int]] = {}
    for id_, number in tasks:
        numbers.setdefault(id_, []).append(number)
    return _record(PLACEMENT + connector, {"series": series, "connector": runs, "tasks": numbers})


def placement_removed(connector: str) -> Encoded:
    return _record(PLACEMENT + connector, None)


def worker_incarnation(url: str, incarnation: str, *, is_ready: bool = True) -> Encoded:
    """Return the record that makes `incarnation` the process at `url`. Its predecessor no longer gets assignments.

    `is_ready`: it has a place to run tasks. It also says that the process reads placements, as older ones do not.
    """
    return _record(WORKER + url, {"incarnation": incarnation, "ready": is_ready, "placements": True})


def worker_left(url: str, incarnation: str) -> Encoded:
    """Return the record which says that a process has ended its tasks and leaves, so its work can be moved at once.

    It has its own key and names the process. If it is delivered late, it does not affect a successor at `url`, and
    compaction keeps the successor's announcement. An older form is a tombstone of the announcement.
    """
    return _record(LEFT + url, {"incarnation": incarnation})


def tasks_stopped(url: str, incarnation: str, tasks: Iterable[tuple[TaskId, int]]) -> Encoded:
    """Return a command, not a state: these tasks of older assignments or task generations have ended on that worker."""
    return _record(STOPPED + url, {"incarnation": incarnation, "tasks": [[*task, number] for task, number in tasks]})


def producer_targets(connector: str, targets: Iterable[Mapping[str, str | None]]) -> Encoded:
    """Return the record which says that the connector's tasks may hold transactional ids on these clusters."""
    return _record(TARGETS + connector, {"targets": [dict(target) for target in targets]})


def producer_targets_removed(connector: str) -> Encoded:
    """Return the record which says that they may hold ids only on the cluster of the worker's own settings."""
    return _record(TARGETS + connector, None)


def topic_retention(topic: str, retention: TopicRetention) -> Encoded:
    """Return the record that announces a deletion: the topic's records below these offsets may vanish at any time."""
    inherited = {group: [[*each] for each in offsets.items()] for group, offsets in retention.inherited.items()}
    value = {"id": retention.topic_id, "deleted": [[*each] for each in retention.deleted.items()]}
    return _record(RETENTION + topic, {**value, **({"inherited": inherited} if inherited else {})})


def topic_retention_removed(topic: str) -> Encoded:
    """Return the record that removes the stored facts about a topic that is gone."""
    return _record(RETENTION + topic, None)


def connector_status_key(connector: str) -> bytes:
    return (STATUS_CONNECTOR + connector).encode()


def task_status_key(task: TaskId) -> bytes:
    return f"{STATUS_TASK}{task}".encode()


def topic_status_key(connector: str, topic: str) -> bytes:
    return f"{STATUS_TOPIC}{topic}{STATUS_TOPIC_CONNECTOR}{connector}".encode()


def topic_status(connector: str, topic: str, task: int, discovered_ms: int) -> Encoded:
    value = {"name": topic, "connector": connector, "task": task, "discoverTimestamp": discovered_ms}
    return topic_status_key(connector, topic), orjson.dumps({"topic": value})


def parse_task(text: str) -> TaskId | None:
    """Parse `C-T`, where C may contain `-`; None if the text has another form."""
    connector, dash, number = text.rpartition("-")
    if not dash or not connector or not (number.isascii() and number.isdigit()):
        return None
    return TaskId(connector, int(number))


def _record(key: str, value: Mapping[str, Any] | None) -> Encoded:
    return key.encode(), None if value is None else orjson.dumps(value)
