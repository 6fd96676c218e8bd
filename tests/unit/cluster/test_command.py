"""What the leader writes: a snapshot in, records out."""

from collections.abc import Sequence

import orjson
import pytest

from fencepost.cluster.assignment import Member
from fencepost.cluster.command import (
    EnsureAbsent,
    EnsureStopped,
    PutConnector,
    PutTaskConfigs,
    Reassign,
    RecordTaskCount,
    RemoveConnector,
    RequestRestart,
    RotateSessionKey,
    StopConnector,
    independent,
    other_records,
)
from fencepost.cluster.errors import AlreadyExistsError, BadRequestError, ConflictError, NotFoundError
from fencepost.cluster.running import Departures
from fencepost.storage import records
from fencepost.storage.change import RestartRequested, TargetState, TaskId
from fencepost.storage.records import Encoded
from support.memory_topic import MemoryTopic

CONFIG = {"name": "c", "file": "f"}
TASKS = [{"n": "0"}, {"n": "1"}]


@pytest.fixture
def topic() -> MemoryTopic:
    own = MemoryTopic()
    own.write(*PutConnector("c", CONFIG).decide(own.snapshot))
    return own


def test_second_creation_of_a_connector_is_refused(topic: MemoryTopic) -> None:
    assert topic.snapshot.connectors["c"] == CONFIG
    with pytest.raises(AlreadyExistsError, match="Connector c already exists"):
        PutConnector("c", CONFIG, is_create=True).decide(topic.snapshot)
    assert PutConnector("c", {"name": "c"}).decide(topic.snapshot)


def test_initial_state_is_written_before_the_connector_config(topic: MemoryTopic) -> None:
    written = PutConnector("d", CONFIG, is_create=True, target_state=TargetState.PAUSED).decide(topic.snapshot)
    assert [key for key, _ in written] == [b"target-state-d", b"connector-d"]


def test_removed_connector_keeps_its_recorded_task_count(topic: MemoryTopic) -> None:
    topic.write(*PutTaskConfigs("c", TASKS).decide(topic.snapshot), records.task_count("c", 2))
    snapshot = topic.write(*RemoveConnector("c").decide(topic.snapshot))
    assert "c" not in snapshot.connectors
    assert snapshot.task_count_records["c"] == 2
    for command in (RemoveConnector("c"), StopConnector("c"), PutTaskConfigs("c", TASKS)):
        with pytest.raises(NotFoundError):
            command.decide(snapshot)


def test_a_stopped_connector_has_no_tasks_and_takes_none(topic: MemoryTopic) -> None:
    topic.write(*PutTaskConfigs("c", TASKS).decide(topic.snapshot))
    written = StopConnector("c").decide(topic.snapshot)
    assert [key for key, _ in written] == [b"commit-c", b"target-state-c"]
    snapshot = topic.write(*written)
    assert snapshot.tasks("c") == ()
    assert snapshot.target_state("c") is TargetState.STOPPED
    assert PutTaskConfigs("c", TASKS).decide(snapshot) == []


def test_task_configs_are_written_with_their_commit_and_only_if_they_changed(topic: MemoryTopic) -> None:
    written = PutTaskConfigs("c", TASKS).decide(topic.snapshot)
    assert [key for key, _ in written] == [b"task-c-0", b"task-c-1", b"commit-c"]
    snapshot = topic.write(*written)
    assert snapshot.tasks("c") == (TaskId("c", 0), TaskId("c", 1))
    assert PutTaskConfigs("c", TASKS).decide(snapshot) == []
    assert PutTaskConfigs("c", TASKS[:1]).decide(snapshot)
    assert PutTaskConfigs("c", [{"n": "5"}, {"n": "1"}]).decide(snapshot)


def test_same_task_configs_are_written_again_when_the_connector_config_changed(topic: MemoryTopic) -> None:
    topic.write(*PutTaskConfigs("c", TASKS).decide(topic.snapshot))
    snapshot = topic.write(*PutConnector("c", {**CONFIG, "transforms": "t"}).decide(topic.snapshot))
    written = PutTaskConfigs("c", TASKS).decide(snapshot)
    assert written
    assert PutTaskConfigs("c", TASKS).decide(topic.write(*written)) == []


def test_incomplete_task_configs_are_written_again(topic: MemoryTopic) -> None:
    topic.write(*PutTaskConfigs("c", TASKS).decide(topic.snapshot))
    snapshot = topic.write(records.tasks_commit("c", 3))
    assert "c" in snapshot.inconsistent
    assert PutTaskConfigs("c", TASKS).decide(snapshot)


def test_task_count_is_refused_once_newer_task_configs_exist(topic: MemoryTopic) -> None:
    topic.write(*PutTaskConfigs("c", TASKS).decide(topic.snapshot))
    command = RecordTaskCount("c", 2, topic.snapshot.commit_offsets["c"])
    snapshot = topic.write(*PutTaskConfigs("c", TASKS[:1]).decide(topic.snapshot))
    with pytest.raises(ConflictError, match="new task configurations were generated"):
        command.decide(snapshot)
    newer = RecordTaskCount("c", 1, snapshot.commit_offsets["c"])
    assert topic.write(*newer.decide(snapshot)).is_ready("c")


def test_a_restart_of_an_unknown_connector_is_refused(topic: MemoryTopic) -> None:
    assert RequestRestart(RestartRequested("c", True, False)).decide(topic.snapshot)
    with pytest.raises(NotFoundError, match="Unknown connector: d"):
        RequestRestart(RestartRequested("d", True, False)).decide(topic.snapshot)


def test_session_key_is_renewed_when_it_expires_or_its_algorithm_changes(topic: MemoryTopic) -> None:
    snapshot = topic.write(*RotateSessionKey("HmacSHA256", 1000, now_ms=5000).decide(topic.snapshot))
    assert snapshot.session_key is not None
    assert len(snapshot.session_key.key) == 32
    assert RotateSessionKey("HmacSHA256", 1000, now_ms=5999).decide(snapshot) == []
    assert RotateSessionKey("HmacSHA256", 1000, now_ms=6000).decide(snapshot)
    assert RotateSessionKey("HmacSHA512", 1000, now_ms=5999).decide(snapshot)


def test_reassign_writes_nothing_when_the_assignment_is_unchanged(topic: MemoryTopic) -> None:
    member = Member("http://w:1", "i")
    topic.write(*PutTaskConfigs("c", TASKS).decide(topic.snapshot))
    snapshot = topic.write(*Reassign((member,)).decide(topic.snapshot))
    assert snapshot.assignment is not None
    mine = snapshot.assignment.of("i")
    assert mine is not None
    assert mine.tasks == (TaskId("c", 0), TaskId("c", 1))
    assert Reassign((member,)).decide(snapshot) == []
    assert snapshot.assignment.generation == 1


class OlderWorker:
    """A worker that reads an assignment from one record only, and waits for what its Departures say."""

    def __init__(self, topic: MemoryTopic, incarnation: str) -> None:
        self._topic, self.incarnation = topic, incarnation
        self._read = MemoryTopic()
        self.departures = Departures(60)

    def write(self, command: Reassign) -> Sequence[Encoded]:
        """Write what the leader decides, and read it."""
        written = command.decide(self._topic.snapshot)
        self._topic.write(*written)
        self.read(*written)
        return written

    def read(self, *written: Encoded) -> None:
        before = self._read.snapshot
        self.departures.changed(before, self._read.write(*filter(None, map(_as_older, written))))

    @property
    def tasks(self) -> tuple[TaskId, ...]:
        mine = self._read.snapshot.assigned_to(self.incarnation)
        return () if mine is None else mine.tasks

    @property
    def named(self) -> list[str]:
        assignment = self._read.snapshot.assignment
        return [] if assignment is None else [each.incarnation for each in assignment.workers]

    def waits_for(self, task: TaskId) -> bool:
        return self.departures.blocks(task, self._read.snapshot.commit_offsets[task.connector], self.incarnation)


def _as_older(record: Encoded) -> Encoded | None:
    key, value = record
    if key.startswith((b"fencepost-holder-", b"fencepost-placement-")):
        return None
    if key == b"fencepost-assignment" and value is not None:
        value = orjson.dumps({name: field for name, field in orjson.loads(value).items() if name != "series"})
    return key, value


A, B, OLDER_B = Member("http://a:1", "a"), Member("http://b:1", "b"), Member("http://b:1", "b", reads_placements=False)


def test_older_worker_waits_for_tasks_to_end_when_placements_are_replaced(topic: MemoryTopic) -> None:
    configured = PutTaskConfigs("c", TASKS).decide(topic.snapshot)
    older = OlderWorker(topic, "b")
    older.read(*PutConnector("c", CONFIG).decide(MemoryTopic().snapshot), *configured)
    topic.write(*configured)
    older.write(Reassign((A,)))
    older.write(Reassign((A, OLDER_B)))
    assert older.tasks == (), "it reads first where everything runs"
    older.write(Reassign((A, OLDER_B)))
    (moved,) = older.tasks
    assert older.waits_for(moved)
    older.departures.ended("a", [(moved, topic.snapshot.commit_offsets["c"])])
    assert not older.waits_for(moved)
    assert older.write(Reassign((A, OLDER_B))) == []


def test_assignment_keeps_several_records_when_one_is_too_small_for_the_next(
    topic: MemoryTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic.write(*PutTaskConfigs("c", TASKS).decide(topic.snapshot))
    snapshot = topic.write(*Reassign((A,)).decide(topic.snapshot))
    assert snapshot.assignment is not None
    unmoved = records.assignment(snapshot.assignment)
    monkeypatch.setattr("fencepost.cluster.command._MOST_IN_ONE", sum(map(len, filter(None, unmoved))) + 10)
    snapshot = topic.write(*Reassign((A, OLDER_B)).decide(snapshot))
    assert snapshot.assignment is not None
    assert snapshot.assignment.series is not None
    assert Reassign((A, OLDER_B)).decide(snapshot) == []


def test_older_worker_reports_tasks_that_end_when_placements_begin(
    topic: MemoryTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured = PutTaskConfigs("c", TASKS).decide(topic.snapshot)
    older = OlderWorker(topic, "b")
    older.read(*PutConnector("c", CONFIG).decide(MemoryTopic().snapshot), *configured)
    topic.write(*configured)
    older.write(Reassign((A, OLDER_B)))
    (ending,) = older.tasks
    monkeypatch.setattr("fencepost.cluster.command._MOST_IN_ONE", 100)
    older.write(Reassign((A, OLDER_B)))
    assert older.tasks == ()
    assert older.departures.of("b", 100) == [(ending, topic.snapshot.commit_offsets["c"])]
    older.write(Reassign((A, OLDER_B, Member("http://d:1", "d"))))
    assert older.departures.of("b", 100), "each record names it"
    assert older.named == ["a", "b", "d"], "one that is alone reports nothing"


def test_reassignment_without_members_takes_no_work_away(topic: MemoryTopic) -> None:
    snapshot = topic.write(*Reassign((Member("http://w:1", "i"),)).decide(topic.snapshot))
    assert Reassign(()).decide(snapshot) == []


def test_commands_are_grouped_until_a_connector_occurs_twice() -> None:
    put, tasks = PutConnector("c", CONFIG), PutTaskConfigs("d", TASKS)
    restart = RequestRestart(RestartRequested("c", False, False))
    assert independent([put, tasks, restart, RemoveConnector("e")], most=10) == 2
    assert independent([put, tasks], most=1) == 1
    assert independent([], most=10) == 0


def test_connectors_that_name_a_consumer_group_are_not_decided_together() -> None:
    """Each would be allowed the group that the other one gets."""
    named = {**CONFIG, "consumer.override.group.id": "g"}
    puts = [PutConnector("a", named), PutConnector("b", CONFIG), PutConnector("c", named), PutConnector("d", CONFIG)]
    assert independent(puts, most=10) == 2
    assert independent(puts[1:], most=10) == 3


def test_task_count_is_recorded_at_once_when_no_fence_is_needed(topic: MemoryTopic) -> None:
    one, two = [{"n": "0"}], TASKS
    snapshot = topic.write(*PutTaskConfigs("c", one, is_exactly_once=True).decide(topic.snapshot))
    assert snapshot.is_ready("c")  # the first generation: nobody to fence
    topic.write(*PutConnector("c", {**CONFIG, "x": "1"}).decide(topic.snapshot))
    snapshot = topic.write(*PutTaskConfigs("c", one, is_exactly_once=True).decide(topic.snapshot))
    assert snapshot.is_ready("c")  # one task before and after: its id fences itself
    snapshot = topic.write(*PutTaskConfigs("c", two, is_exactly_once=True).decide(topic.snapshot))
    assert not snapshot.is_ready("c")
    assert snapshot.task_count_records["c"] == 1  # the round fences that one, then records the new count
    topic.write(records.task_count("c", 2))
    snapshot = topic.write(*PutTaskConfigs("c", one, is_exactly_once=True).decide(topic.snapshot))
    assert not snapshot.is_ready("c")


def test_without_exactly_once_no_task_count_is_written(topic: MemoryTopic) -> None:
    snapshot = topic.write(*PutTaskConfigs("c", TASKS).decide(topic.snapshot))
    assert "c" not in snapshot.task_count_records


def test_offsets_may_be_altered_only_if_the_connector_is_stopped_without_tasks() -> None:
    topic, ensure = MemoryTopic(), EnsureStopped("c")
    with pytest.raises(NotFoundError, match="Connector c not found"):
        ensure.decide(topic.snapshot)
    topic.write(records.connector_config("c", CONFIG), records.target_state("c", TargetState.PAUSED))
    with pytest.raises(BadRequestError, match=r"must be in the STOPPED state .* '/connectors/c/stop' endpoint"):
        ensure.decide(topic.snapshot)
    topic.write(records.task_config(TaskId("c", 0), {}), records.tasks_commit("c", 1))
    topic.write(records.target_state("c", TargetState.STOPPED))
    with pytest.raises(BadRequestError):
        ensure.decide(topic.snapshot)
    topic.write(records.tasks_commit("c", 0))
    assert ensure.decide(topic.snapshot) == []


def test_name_of_a_new_connector_must_be_free() -> None:
    topic = MemoryTopic()
    assert EnsureAbsent("c", CONFIG).decide(topic.snapshot) == []
    topic.write(records.connector_config("c", CONFIG))
    with pytest.raises(AlreadyExistsError, match="Connector c already exists"):
        EnsureAbsent("c", CONFIG).decide(topic.snapshot)


def test_offsets_of_a_refused_connector_are_not_written() -> None:
    record = ("offsets", b"key", b"value")
    put = PutConnector("c", CONFIG, is_create=True, other_records=[record])
    stop = StopConnector("d")
    assert other_records([put, stop], [[], []]) == [record]
    assert other_records([put, stop], [AlreadyExistsError("c"), []]) == []
