"""Which starts of tasks have to end before others begin, as every worker learns it from the config topic."""

import threading

import pytest

from fencepost.cluster.running import Departures
from fencepost.storage import records
from fencepost.storage.change import Assignment, TargetState, TaskId, WorkerAssignment
from fencepost.storage.snapshot import ClusterSnapshot
from support.memory_topic import MemoryTopic

FIRST, SECOND = TaskId("c", 0), TaskId("c", 1)
GRACE_S = 5.0


class Topic:
    """A config topic of one connector, and what one worker makes of it."""

    def __init__(self) -> None:
        self.now = 100.0
        self.departures = Departures(GRACE_S, lambda: self.now)
        self.config = MemoryTopic()
        self.snapshot = ClusterSnapshot()
        self.write(records.connector_config("c", {"name": "c"}))
        self.tasks(2)

    def write(self, *encoded: records.Encoded) -> None:
        old, self.snapshot = self.snapshot, self.config.write(*encoded)
        self.departures.changed(old, self.snapshot)

    def tasks(self, count: int) -> None:
        ids = [TaskId("c", n) for n in range(count)]
        self.write(*[records.task_config(t, {}) for t in ids], records.tasks_commit("c", count))

    def assign(self, **tasks: list[TaskId]) -> None:
        workers = tuple(WorkerAssignment(name, f"http://{name}:1", (), tuple(ids)) for name, ids in tasks.items())
        self.write(records.assignment(Assignment(1, workers)))

    @property
    def generation(self) -> int:
        return self.snapshot.commit_offsets["c"]

    def blocks(self, task: TaskId, but: str) -> bool:
        return self.departures.blocks(task, self.generation, but)


@pytest.fixture
def topic() -> Topic:
    topic = Topic()
    topic.assign(a=[FIRST, SECOND], b=[])
    return topic


def test_moved_task_waits_until_its_former_owner_reports_its_end(topic: Topic) -> None:
    topic.assign(a=[FIRST], b=[SECOND])
    assert topic.departures.of("a", topic.snapshot.offset) == [(SECOND, topic.generation)]
    assert topic.blocks(SECOND, "b")
    assert not topic.blocks(FIRST, "b")
    topic.departures.ended("a", [(SECOND, topic.generation)])
    assert not topic.blocks(SECOND, "b")


def test_new_task_generation_waits_for_older_tasks_on_all_other_workers(topic: Topic) -> None:
    topic.assign(a=[FIRST], b=[SECOND])
    topic.departures.ended("a", [(SECOND, topic.generation)])
    older = topic.generation
    topic.tasks(1)
    topic.assign(a=[FIRST], b=[])
    assert topic.blocks(FIRST, "a")
    topic.departures.ended("b", [(SECOND, older)])
    assert not topic.blocks(FIRST, "a"), "its own it sees to itself"
    assert topic.blocks(FIRST, "b")


def test_wait_for_a_moved_task_ends_after_the_stop_timeout(topic: Topic) -> None:
    topic.assign(a=[FIRST], b=[SECOND])
    topic.now += GRACE_S
    assert topic.blocks(SECOND, "b")
    topic.now += 1
    assert not topic.blocks(SECOND, "b")


def test_moved_task_does_not_wait_for_a_worker_that_is_gone(topic: Topic) -> None:
    topic.assign(b=[FIRST, SECOND])
    assert not topic.blocks(FIRST, "b")


def test_task_that_returns_to_its_worker_is_not_stopped(topic: Topic) -> None:
    topic.assign(a=[FIRST], b=[SECOND])
    topic.assign(a=[FIRST, SECOND], b=[])
    assert topic.departures.of("a", topic.snapshot.offset) == []
    assert not topic.blocks(SECOND, "b")
    assert topic.blocks(SECOND, "a"), "it may have begun there"
    assert topic.departures.of("b", topic.snapshot.offset) == [(SECOND, topic.generation)]


def test_all_tasks_of_a_stopped_or_deleted_connector_must_end(topic: Topic) -> None:
    generation = topic.generation
    topic.write(records.target_state("c", TargetState.STOPPED))
    assert len(topic.departures.of("a", topic.snapshot.offset)) == 2
    topic.departures.ended("a", [(FIRST, generation), (SECOND, generation)])
    topic.write(records.target_state("c", TargetState.STARTED))
    topic.write(records.connector_removed("c"))
    assert len(topic.departures.of("a", topic.snapshot.offset)) == 2


def test_worker_reports_no_ends_of_tasks_from_records_it_has_not_read(topic: Topic) -> None:
    before = topic.snapshot.offset
    topic.assign(a=[FIRST], b=[SECOND])
    assert topic.departures.of("a", before) == []


def test_fencing_round_waits_until_older_task_generations_have_ended() -> None:
    topic = Topic()
    topic.departures = Departures(600.0)
    topic.assign(a=[FIRST], b=[SECOND])
    older = topic.generation
    topic.tasks(2)
    waited = threading.Event()

    def wait() -> None:
        topic.departures.wait_for("c", topic.generation)
        waited.set()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    assert not waited.wait(0.05)
    topic.departures.ended("a", [(FIRST, older)])
    assert not waited.wait(0.05)
    topic.departures.ended("b", [(SECOND, older)])
    assert waited.wait(60)
    thread.join(60)


@pytest.mark.parametrize("how", ["stopped", "deleted", "fewer tasks"])
def test_tasks_that_a_dead_worker_had_not_ended_are_abandoned(topic: Topic, how: str) -> None:
    topic.assign(a=[FIRST], b=[SECOND])
    topic.departures.ended("a", [(SECOND, topic.generation)])
    if how == "stopped":
        topic.write(records.tasks_commit("c", 0), records.target_state("c", TargetState.STOPPED))
    elif how == "deleted":
        topic.write(records.connector_removed("c"), records.target_state_removed("c"))
    else:
        topic.tasks(1)
    topic.assign(a=[FIRST], b=[])
    topic.departures.ended("a", [(FIRST, topic.generation)])
    assert topic.departures.abandoned_tasks(topic.snapshot, {"a", "b"}) == set(), "it lives, and will say so"
    topic.now += 10 * GRACE_S
    assert topic.departures.abandoned_tasks(topic.snapshot, {"a"}) == {SECOND}
    assert topic.departures.abandoned_tasks(topic.snapshot, {"a"}) == set(), "once"


def test_tasks_that_ended_or_run_elsewhere_are_not_abandoned(topic: Topic) -> None:
    topic.assign(a=[FIRST], b=[SECOND])
    assert topic.departures.abandoned_tasks(topic.snapshot, {"b"}) == set(), "another start follows"
    older = topic.generation
    topic.write(records.tasks_commit("c", 0), records.target_state("c", TargetState.STOPPED))
    topic.departures.ended("b", [(SECOND, older)])
    topic.departures.ended("a", [(FIRST, older)])
    assert topic.departures.abandoned_tasks(topic.snapshot, set()) == set()
