"""The pure fold of the config topic: applies one record after another to a `SnapshotBuilder`."""

import base64
import binascii
import logging
from collections.abc import Callable, Iterable
from typing import Any

import orjson

from fencepost.secret.known import remember
from fencepost.storage import records
from fencepost.storage.change import (
    Assignment,
    AssignmentChanged,
    Change,
    HeldBackWork,
    Holder,
    LoggerLevelSet,
    Placement,
    RestartRequested,
    SessionKey,
    SessionKeyUpdated,
    TargetState,
    TargetStateChanged,
    TaskCountRecorded,
    TaskId,
    TasksStopped,
    TopicRetention,
    WorkerAbilities,
    WorkerAssignment,
)
from fencepost.storage.snapshot import ClusterSnapshot, SnapshotBuilder

LOG = logging.getLogger(__name__)


class MalformedRecordError(ValueError):
    """A record whose value does not fit its key: it is foreign or incomplete."""


def apply(builder: SnapshotBuilder, offset: int, key: bytes | None, value: bytes | None) -> list[Change]:
    """Fold the record at `offset` into `builder`. Returns the changes.

    A malformed record is logged and skipped, as in Kafka Connect. It still advances `builder.offset`.
    """
    builder.offset = offset + 1
    try:
        text = (key or b"").decode()
        for prefix, is_whole_key, fold in _FOLDS:
            if text == prefix or (not is_whole_key and text.startswith(prefix)):
                change = fold(builder, text[len(prefix) :], _parse(value), offset)
                return [] if change is None else [change]
        LOG.warning("Skipped the record at offset %d of the config topic: unknown key %r", offset, text)
    except (MalformedRecordError, UnicodeDecodeError) as error:
        LOG.error("Skipped the record at offset %d of the config topic, key %r: %s", offset, key, error)
    return []


def after(snapshot: ClusterSnapshot, encoded: Iterable[records.Encoded]) -> ClusterSnapshot:
    """Return the snapshot as it would be after these records, except for their offsets, which are not known yet."""
    builder = SnapshotBuilder(snapshot)
    for key, value in encoded:
        apply(builder, builder.offset, key, value)
    return builder.freeze()


def _parse(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise MalformedRecordError(f"its value is not JSON ({error})") from error


def _target_state(builder: SnapshotBuilder, name: str, value: Any, _: int) -> Change | None:
    if value is None:
        builder.put_target_state(name, None)
        return None
    fields = _object(value)
    new = fields.get("state.v2")
    text = new if isinstance(new, str) else _field(fields, "state", str)
    try:
        state = TargetState(text)
    except ValueError as error:
        raise MalformedRecordError(f"{text!r} is not a target state") from error
    return TargetStateChanged(name, state) if builder.put_target_state(name, state) else None


def _connector(builder: SnapshotBuilder, name: str, value: Any, _: int) -> Change | None:
    if value is None:
        return builder.remove_connector(name)
    return builder.put_connector(name, _properties(value))


def _task(builder: SnapshotBuilder, rest: str, value: Any, _: int) -> Change | None:
    task = records.parse_task(rest)
    if task is None:
        raise MalformedRecordError("its key does not name a task")
    builder.defer_task(task, _properties(value))
    return None


def _commit(builder: SnapshotBuilder, name: str, value: Any, offset: int) -> Change | None:
    return builder.commit_tasks(name, _count(_object(value), "tasks"), offset)


def _restart(_: SnapshotBuilder, name: str, value: Any, __: int) -> Change | None:
    fields = _object(value)
    return RestartRequested(name, fields.get("include-tasks") is True, fields.get("only-failed") is True)


def _task_count(builder: SnapshotBuilder, name: str, value: Any, _: int) -> Change | None:
    count = _count(_object(value), "task-count")
    builder.record_task_count(name, count)
    return TaskCountRecorded(name, count)


def _session_key(builder: SnapshotBuilder, _: str, value: Any, __: int) -> Change | None:
    fields = _object(value)
    remember(text := _field(fields, "key", str))  # whoever has it can sign as a worker (E11)
    try:
        key = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise MalformedRecordError("its key is not base64") from error
    created_ms = _count(fields, "creation-timestamp")
    builder.session_key = SessionKey(key, _field(fields, "algorithm", str), created_ms)
    return SessionKeyUpdated(builder.session_key)


def _logger(builder: SnapshotBuilder, namespace: str, value: Any, _: int) -> Change | None:
    level = _field(_object(value), "level", str)
    builder.set_logger_level(namespace, level)
    return LoggerLevelSet(namespace, level)


def _assignment(builder: SnapshotBuilder, _: str, value: Any, __: int) -> Change | None:
    fields = _object(value)
    generation = _field(fields, "generation", int)
    if "series" in fields:
        builder.assigned.commit(generation, _field(fields, "series", int))
        return AssignmentChanged(generation)
    workers = tuple(_worker(_object(worker)) for worker in _field(fields, "workers", list))
    waiting = tuple(_waiting(_object(each)) for each in _field({"waiting": [], **fields}, "waiting", list))
    builder.assigned.put(Assignment(generation, workers, waiting))
    return AssignmentChanged(generation)


def _holder(builder: SnapshotBuilder, id_: str, value: Any, _: int) -> Change | None:
    if value is None:
        builder.assigned.defer_holder(id_, None)
        return None
    fields = _object(value)
    until = None if fields.get("until") is None else _field(fields, "until", int)
    holder = Holder(_field(fields, "incarnation", str), _field(fields, "url", str), until)
    builder.assigned.defer_holder(id_, (_field(fields, "series", int), holder))
    return None


def _placement(builder: SnapshotBuilder, connector: str, value: Any, _: int) -> Change | None:
    if value is None:
        builder.assigned.defer_placement(connector, None)
        return None
    fields = _object(value)
    runs = None if fields.get("connector") is None else _field(fields, "connector", str)
    tasks = {id_: tuple(numbers) for id_, numbers in _field(fields, "tasks", dict).items() if isinstance(numbers, list)}
    if not all(type(number) is int for numbers in tasks.values() for number in numbers):
        raise MalformedRecordError("a task is not a number")
    builder.assigned.defer_placement(connector, (_field(fields, "series", int), Placement(runs, tasks)))
    return None


def _incarnation(builder: SnapshotBuilder, url: str, value: Any, _: int) -> Change | None:
    if value is None:
        builder.set_incarnation(url, None)
        return None
    fields = _object(value)
    abilities = WorkerAbilities(fields.get("ready") is not False, fields.get("placements") is True)
    builder.set_incarnation(url, _field(fields, "incarnation", str), abilities)
    return None


def _left(builder: SnapshotBuilder, url: str, value: Any, _: int) -> Change | None:
    if value is not None:
        builder.leave(url, _field(_object(value), "incarnation", str))
    return None


def _targets(builder: SnapshotBuilder, name: str, value: Any, _: int) -> Change | None:
    found = None if value is None else _field(_object(value), "targets", list)
    builder.put_producer_targets(name, found and tuple(_properties({"properties": each}) for each in found))
    return None


def _retention(builder: SnapshotBuilder, topic: str, value: Any, _: int) -> Change | None:
    if value is None:
        builder.put_retention(topic, None)
        return None
    fields = {"inherited": {}, **_object(value)}
    inherited = {str(group): _offsets(found) for group, found in _field(fields, "inherited", dict).items()}
    deleted = _offsets(_field(fields, "deleted", list))
    builder.put_retention(topic, TopicRetention(_field(fields, "id", str), deleted, inherited))
    return None


def _offsets(value: Any) -> dict[int, int]:
    pairs: list[Any] = value if isinstance(value, list) else [value]
    if not all(isinstance(p, list) and len(p) == 2 and all(type(number) is int for number in p) for p in pairs):
        raise MalformedRecordError("an offset is not [partition, offset]")
    return dict(pairs)


def _stopped(_: SnapshotBuilder, url: str, value: Any, __: int) -> Change | None:
    if value is None:
        return None
    fields = _object(value)
    tasks = _field(fields, "tasks", list)
    if not all(isinstance(t, list) and len(t) == 3 and isinstance(t[1], int) and isinstance(t[2], int) for t in tasks):
        raise MalformedRecordError("a task is not [connector, number, generation]")
    named = tuple((TaskId(str(connector), number), generation) for connector, number, generation in tasks)
    return TasksStopped(_field(fields, "incarnation", str), named)


def _worker(fields: dict[str, Any]) -> WorkerAssignment:
    tasks = _field(fields, "tasks", list)
    if not all(isinstance(t, list) and len(t) == 2 and isinstance(t[0], str) and isinstance(t[1], int) for t in tasks):
        raise MalformedRecordError("a task is not [connector, number]")
    return WorkerAssignment(
        incarnation=_field(fields, "incarnation", str),
        url=_field(fields, "url", str),
        connectors=tuple(str(name) for name in _field(fields, "connectors", list)),
        tasks=tuple(TaskId(connector, number) for connector, number in tasks),
    )


def _waiting(fields: dict[str, Any]) -> HeldBackWork:
    return HeldBackWork(_worker(_object(fields.get("worker"))), _field(fields, "until", int))


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MalformedRecordError("its value is not a JSON object")
    return value


def _field(fields: dict[str, Any], name: str, kind: type) -> Any:
    value = fields.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise MalformedRecordError(f"its {name!r} is missing or no {kind.__name__}")
    return value


def _count(fields: dict[str, Any], name: str) -> int:
    number: int = _field(fields, name, int)
    if number < 0:
        raise MalformedRecordError(f"its {name!r} is negative")
    return number


def _properties(value: Any) -> dict[str, str | None]:
    properties: dict[str, str | None] = _field(_object(value), "properties", dict)
    odd = [name for name, v in properties.items() if not isinstance(v, str | None)]
    if odd:
        raise MalformedRecordError(f"the property {odd[0]!r} is not a string")
    return properties


_Fold = Callable[[SnapshotBuilder, str, Any, int], Change | None]

# In the order in which Kafka Connect tests them. The flag means that the text is the whole key, not a prefix.
_FOLDS: tuple[tuple[str, bool, _Fold], ...] = (
    (records.TARGET_STATE, False, _target_state),
    (records.CONNECTOR, False, _connector),
    (records.TASK, False, _task),
    (records.COMMIT, False, _commit),
    (records.RESTART, False, _restart),
    (records.TASK_COUNT, False, _task_count),
    (records.TASK_COUNT_OF_KIP, False, _task_count),
    (records.SESSION_KEY, True, _session_key),
    (records.LOGGER, False, _logger),
    (records.ASSIGNMENT, True, _assignment),
    (records.HOLDER, False, _holder),
    (records.PLACEMENT, False, _placement),
    (records.WORKER, False, _incarnation),
    (records.LEFT, False, _left),
    (records.STOPPED, False, _stopped),
    (records.TARGETS, False, _targets),
    (records.RETENTION, False, _retention),
)
