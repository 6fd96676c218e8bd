"""The status topic: the state of every connector and task, and the topics that each connector has used."""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import orjson

from fencepost.kafka.produce.writer import LatestWriter
from fencepost.kafka.read.follower import LogFollower
from fencepost.kafka.read.log import LogReader, LogRecord
from fencepost.storage import records
from fencepost.storage.change import TaskId

LOG = logging.getLogger(__name__)


class State(Enum):
    """The state of a connector or task. STOPPED is for connectors only; DESTROYED is written as a tombstone."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"
    DESTROYED = "DESTROYED"


@dataclass(frozen=True, slots=True)
class Restart:
    """Automatic restarts after failures: how many there were in a row, and when the next one is due, if any.

    Only Fencepost writes this; Kafka Connect's readers ignore it.
    """

    attempts: int
    next_ms: int | None


@dataclass(frozen=True, slots=True)
class Status:
    """A status. `generation` is the group generation in which `worker_id` (host:port) reported it."""

    state: State
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = None
    restart: Restart | None = None

    def encode(self) -> bytes | None:
        if self.state is State.DESTROYED:
            return None
        fields = {
            "state": self.state.value,
            "trace": self.trace,
            "worker_id": self.worker_id,
            "generation": self.generation,
            "version": self.version,
        }
        if self.restart is not None:
            fields["restart"] = {"attempts": self.restart.attempts, "next": self.restart.next_ms}
        return orjson.dumps(fields)


Subject = str | TaskId
"""A connector's name, or a task."""

Listener = Callable[[Subject, Status], None]


class StatusTable:
    """The newest status of everything. Thread-safe; no method waits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connectors: dict[str, Status] = {}
        self._tasks: dict[str, dict[int, Status]] = {}
        self._topics: dict[str, dict[str, int]] = {}

    def connectors(self) -> dict[str, Status]:
        with self._lock:
            return dict(self._connectors)

    def status(self, subject: Subject) -> Status | None:
        with self._lock:
            return self._status(subject)

    def tasks(self, connector: str) -> dict[int, Status]:
        """Return the statuses of a connector's tasks by task number, in order."""
        with self._lock:
            return dict(sorted(self._tasks.get(connector, {}).items()))

    def subjects(self) -> list[Subject]:
        """Return everything that has a status."""
        with self._lock:
            tasks = [TaskId(connector, number) for connector, found in self._tasks.items() for number in found]
            return [*self._connectors, *tasks]

    def topics(self, connector: str) -> tuple[str, ...]:
        """Return the topics that the connector has used since they were last reset."""
        with self._lock:
            return tuple(sorted(self._topics.get(connector, ())))

    def connectors_with_topics(self) -> list[str]:
        with self._lock:
            return [connector for connector, topics in self._topics.items() if topics]

    def set(self, subject: Subject, status: Status | None) -> None:
        """Set or remove a status. A late UNASSIGNED or FAILED of a task's former owner does not hide a later status."""
        with self._lock:
            last = self._status(subject)
            if isinstance(subject, TaskId):
                if status is None:
                    self._tasks.get(subject.connector, {}).pop(subject.task, None)
                elif not _is_late(status, last):
                    self._tasks.setdefault(subject.connector, {})[subject.task] = status
            elif status is None:
                self._connectors.pop(subject, None)
            else:
                self._connectors[subject] = status

    def set_topic(self, connector: str, topic: str, task: int | None) -> None:
        with self._lock:
            if task is None:
                self._topics.get(connector, {}).pop(topic, None)
            else:
                self._topics.setdefault(connector, {})[topic] = task

    def _status(self, subject: Subject) -> Status | None:
        if isinstance(subject, TaskId):
            return self._tasks.get(subject.connector, {}).get(subject.task)
        return self._connectors.get(subject)


class StatusTopic:
    """Follows the status topic into `table`, and writes to it in the background: a put never waits for Kafka.

    A status that was put is in the table once it has been read back.
    """

    def __init__(self, consumer_conf: Mapping[str, Any], producer_conf: Mapping[str, Any], topic: str) -> None:
        self.table = StatusTable()
        self._listener: Listener = lambda subject, status: None
        self._places: dict[bytes, tuple[int, int]] = {}  # by key: partition and time of the newest record
        reader = LogReader(consumer_conf, topic, read_committed=False, fetch_wait_ms=500)
        self._follower = LogFollower(reader, self._take, lambda: None)
        self._writer = LatestWriter(producer_conf, topic)

    def listen(self, listener: Listener) -> None:
        """Register a listener for each status that is read. Call this before `start`. It must not raise or wait."""
        self._listener = listener

    def start(self, timeout_s: float) -> None:
        """Read the topic to its end, and keep following it. May be called again after a KafkaUnavailableError."""
        self._follower.start(timeout_s)
        self._writer.start()

    def read_to_end(self, timeout_s: float) -> None:
        """Wait until `table` holds everything that was written before this call."""
        self._follower.read_to_end(timeout_s)

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything put so far is written; False if `timeout_s` was not enough."""
        return self._writer.flush(timeout_s)

    def stop(self, timeout_s: float = 5.0) -> None:
        """Write what is queued, for at most `timeout_s`, and stop. Idempotent."""
        self._writer.stop(timeout_s)
        self._follower.stop()

    def put(self, subject: Subject, status: Status) -> None:
        self._writer.put(_key(subject), status.encode())

    def put_safe(self, subject: Subject, status: Status) -> bool:
        """Put a status unless another worker has reported one in a later generation. Returns whether it was put.

        Use it for states that a former owner may report late: UNASSIGNED and FAILED.
        """
        last = self.table.status(subject)
        if last is not None and last.worker_id != status.worker_id and last.generation > status.generation:
            return False
        self.put(subject, status)
        return True

    def remove(self, subject: Subject) -> None:
        """Write a tombstone: the connector or task no longer exists."""
        self._writer.put(_key(subject), None)

    def put_topic(self, connector: str, topic: str, task: int, discovered_ms: int) -> None:
        """Record that `connector` has used `topic`."""
        self._writer.put(*records.topic_status(connector, topic, task, discovered_ms))

    def remove_topic(self, connector: str, topic: str) -> None:
        self._writer.put(records.topic_status_key(connector, topic), None)

    def _take(self, record: LogRecord) -> None:
        key = record.key or b""
        partition, at_ms = self._places.get(key, (record.partition, 0))
        if partition != record.partition and at_ms > record.timestamp_ms:
            return  # the key has since moved to a partition that was added
        self._places[key] = (record.partition, record.timestamp_ms)
        try:
            said = apply(self.table, key, record.value)
        except (ValueError, KeyError, TypeError) as error:
            LOG.warning("Skipped %d/%d of the status topic: %r", record.partition, record.offset, error)
            return
        if said is not None:
            self._listener(*said)


def apply(table: StatusTable, key: bytes, value: bytes | None) -> tuple[Subject, Status] | None:
    """Fold one record into `table`. Returns the status that it sets.

    Raises ValueError, KeyError or TypeError for a malformed record.
    """
    text = key.decode()
    fields = None if value is None else orjson.loads(value)
    subject: Subject | None = None
    if text.startswith(records.STATUS_CONNECTOR):
        subject = text.removeprefix(records.STATUS_CONNECTOR)
    elif text.startswith(records.STATUS_TASK):
        subject = records.parse_task(text.removeprefix(records.STATUS_TASK))
        if subject is None:
            raise ValueError(f"{text!r} does not name a task")
    elif text.startswith(records.STATUS_TOPIC):
        topic, colon, connector = text.removeprefix(records.STATUS_TOPIC).partition(records.STATUS_TOPIC_CONNECTOR)
        if not colon:
            raise ValueError(f"{text!r} does not name a connector")
        table.set_topic(connector, topic, None if fields is None else int(fields["topic"]["task"]))
    else:
        raise ValueError(f"unknown key {text!r}")
    if subject is None:
        return None
    status = _status(fields)
    table.set(subject, status)
    return None if status is None else (subject, status)


def _key(subject: Subject) -> bytes:
    if isinstance(subject, TaskId):
        return records.task_status_key(subject)
    return records.connector_status_key(subject)


def _status(fields: Any) -> Status | None:
    if fields is None:
        return None
    return Status(
        State(fields["state"]),
        str(fields["worker_id"]),
        int(fields["generation"]),
        fields.get("trace"),
        fields.get("version"),
        _restart(fields.get("restart")),
    )


def _restart(fields: Any) -> Restart | None:
    return None if fields is None else Restart(int(fields["attempts"]), fields["next"])


def _is_late(status: Status, last: Status | None) -> bool:
    if last is None or last.worker_id == status.worker_id:  # one worker's states are in order
        return False
    if status.state is State.UNASSIGNED and last.state is State.RUNNING:
        return last.generation >= status.generation
    return status.state in (State.UNASSIGNED, State.FAILED) and last.generation > status.generation
