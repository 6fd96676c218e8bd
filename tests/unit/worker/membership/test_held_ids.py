"""Whose tasks a worker finds at its own address."""

import pytest

from fencepost.config.worker import WorkerConfig
from fencepost.storage.change import Assignment, TaskId, WorkerAssignment
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.membership.membership import HeldIds, held_by_predecessors
from fencepost.worker.settings import WorkerSettings


def test_predecessor_is_a_worker_with_this_address_and_another_incarnation() -> None:
    mine = WorkerAssignment("me", "http://w:1", (), (TaskId("c", 0),))
    before = WorkerAssignment("before", "http://w:1", (), (TaskId("c", 1),))
    other = WorkerAssignment("other", "http://w:2", (), (TaskId("c", 2),))
    snapshot = ClusterSnapshot(assignment=Assignment(1, (mine, before, other)))
    assert held_by_predecessors(snapshot, "http://w:1", "me") == {TaskId("c", 1)}


def test_no_ids_are_held_before_the_first_assignment() -> None:
    assert held_by_predecessors(ClusterSnapshot(), "http://w:1", "me") == set()


@pytest.mark.parametrize("exactly_once", ["enabled", "disabled"])
def test_stream_tasks_always_have_transactional_ids_and_sink_tasks_never_do(
    exactly_once: str,
) -> None:
    topics = {f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")}
    converters = dict.fromkeys(("key.converter", "value.converter"), "StringConverter")
    file = {"bootstrap.servers": "b:1", "group.id": "g", "exactly.once.source.support": exactly_once}
    file |= topics | converters
    held = HeldIds(WorkerSettings(WorkerConfig(file), "", ""), ClusterSnapshot)
    classes = {"stream": "TopicTransform", "sink": "FileStreamSink", "source": "FileStreamSource", "query": "SqlStream"}
    snapshot = ClusterSnapshot(connectors={name: {"connector.class": found} for name, found in classes.items()})
    found = {name for name in classes if held.has_ids(snapshot, name)}
    assert found == ({"stream", "source"} if exactly_once == "enabled" else {"stream"})
