"""Whose tasks a worker finds at its own address."""

from fencepost.storage.change import Assignment, WorkerAssignment
from fencepost.storage.ids import TaskId
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.membership.held_ids import held_by_predecessors


def test_a_predecessor_is_who_had_this_address_under_another_incarnation() -> None:
    mine = WorkerAssignment("me", "http://w:1", (), (TaskId("c", 0),))
    before = WorkerAssignment("before", "http://w:1", (), (TaskId("c", 1),))
    other = WorkerAssignment("other", "http://w:2", (), (TaskId("c", 2),))
    snapshot = ClusterSnapshot(assignment=Assignment(1, (mine, before, other)))
    assert held_by_predecessors(snapshot, "http://w:1", "me") == {TaskId("c", 1)}


def test_where_nothing_was_ever_assigned_nobody_holds_anything() -> None:
    assert held_by_predecessors(ClusterSnapshot(), "http://w:1", "me") == set()
