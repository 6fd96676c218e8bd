import orjson
import pytest

from fencepost.storage.change import TaskId
from fencepost.storage.status_topic import Restart, State, Status, StatusTable, apply

TASK = TaskId("c-d", 1)


def running(generation: int) -> Status:
    return Status(State.RUNNING, "new:1", generation)


def unassigned(generation: int) -> Status:
    return Status(State.UNASSIGNED, "old:1", generation)


@pytest.mark.parametrize("late", [3, 4])
def test_late_unassigned_does_not_hide_a_running_task(late: int):
    table = StatusTable()
    table.set(TASK, running(4))
    table.set(TASK, unassigned(late))
    assert table.status(TASK) == running(4)


@pytest.mark.parametrize("state", [State.UNASSIGNED, State.FAILED])
@pytest.mark.parametrize("newest", [State.RUNNING, State.PAUSED, State.RESTARTING])
def test_status_of_a_past_generation_does_not_hide_a_newer_status(newest: State, state: State):
    table = StatusTable()
    table.set(TASK, Status(newest, "new:1", 4))
    table.set(TASK, Status(state, "old:1", 3))
    assert table.status(TASK) == Status(newest, "new:1", 4)


def test_failure_counts_even_from_another_worker_of_the_generation():
    table = StatusTable()
    table.set(TASK, running(4))
    table.set(TASK, Status(State.FAILED, "old:1", 4))
    assert table.status(TASK) == Status(State.FAILED, "old:1", 4)


def test_later_unassigned_counts():
    table = StatusTable()
    table.set(TASK, running(4))
    table.set(TASK, unassigned(5))
    assert table.status(TASK) == unassigned(5)


def test_unassigned_counts_from_the_worker_that_ran_the_generation():
    table = StatusTable()
    stopped = Status(State.UNASSIGNED, running(4).worker_id, 4)
    table.set(TASK, running(4))
    table.set(TASK, stopped)
    assert table.status(TASK) == stopped


def test_unassigned_connector_counts_always():
    table = StatusTable()
    table.set("c", running(4))
    table.set("c", unassigned(3))
    assert table.status("c") == unassigned(3)


def test_destroyed_is_a_tombstone():
    assert Status(State.DESTROYED, "w:1", 1).encode() is None


def test_statuses_are_grouped_by_connector():
    table = StatusTable()
    apply(table, b"status-connector-c-d", running(1).encode())
    for number in (10, 2, 1):
        apply(table, f"status-task-c-d-{number}".encode(), running(number).encode())
    assert list(table.tasks("c-d")) == [1, 2, 10]
    assert set(table.subjects()) == {"c-d", *(TaskId("c-d", n) for n in (1, 2, 10))}
    apply(table, b"status-task-c-d-2", None)
    apply(table, b"status-connector-c-d", None)
    assert list(table.tasks("c-d")) == [1, 10]
    assert table.connectors() == {}


def test_topics_of_a_connector():
    table = StatusTable()
    value = b'{"topic":{"name":"t","connector":"c","task":0,"discoverTimestamp":1}}'
    apply(table, b"status-topic-t:connector-c", value)
    assert table.topics("c") == ("t",)
    apply(table, b"status-topic-t:connector-c", None)
    assert table.topics("c") == ()


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"x", b"{}"), (b"status-connector-c", b"{}"), (b"status-connector-c", b'{"state":"FLYING"}'),
     (b"status-task-c", running(1).encode()), (b"status-topic-t", b"{}"), (b"status-connector-c", b"[]"),
     (b"status-connector-c", b"{half"), (b"status-topic-t:connector-c", b'{"topic":{}}')],
)  # fmt: skip
def test_foreign_record_raises_and_changes_nothing(key: bytes, value: bytes):
    table = StatusTable()
    with pytest.raises((ValueError, KeyError, TypeError)):
        apply(table, key, value)
    assert table.subjects() == []


def test_status_has_the_next_restart_and_else_the_fields_of_kafka_connect():
    table, failed = StatusTable(), Status(State.FAILED, "w:1", 4, "broken", "1.0", Restart(2, 1_700_000_000_000))
    apply(table, b"status-task-c-d-1", failed.encode())
    assert table.status(TASK) == failed
    plain = orjson.loads(running(4).encode() or b"")
    assert set(plain) == {"state", "trace", "worker_id", "generation", "version"}
