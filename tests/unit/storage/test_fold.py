"""Rules of the config topic, the traps of compaction first."""

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from fencepost.secret.known import hide_known
from fencepost.storage import records
from fencepost.storage.change import (
    Assignment,
    AssignmentChanged,
    Change,
    ConnectorConfigRemoved,
    ConnectorConfigUpdated,
    HeldBackWork,
    LoggerLevelSet,
    RestartRequested,
    SessionKey,
    SessionKeyUpdated,
    TargetState,
    TargetStateChanged,
    TaskConfigsUpdated,
    TaskCountRecorded,
    TaskId,
    WorkerAssignment,
)
from fencepost.storage.fold import apply
from fencepost.storage.snapshot import ClusterSnapshot, SnapshotBuilder

A0, A1, A2 = (TaskId("a", n) for n in range(3))


class Log:
    """A config topic in the making."""

    def __init__(self) -> None:
        self.builder = SnapshotBuilder()
        self.next_offset = 0

    def put(self, *encoded: records.Encoded) -> list[Change]:
        changes: list[Change] = []
        for key, value in encoded:
            changes += apply(self.builder, self.next_offset, key, value)
            self.next_offset += 1
        return changes

    def put_raw(self, key: str, value: Any) -> list[Change]:
        return self.put((key.encode(), value if isinstance(value, bytes) else json.dumps(value).encode()))

    @property
    def snapshot(self) -> ClusterSnapshot:
        return self.builder.freeze()


@pytest.fixture
def log() -> Log:
    return Log()


def generation(*tasks: TaskId) -> list[records.Encoded]:
    return [*(records.task_config(t, {"n": str(t.task)}) for t in tasks), records.tasks_commit("a", len(tasks))]


def test_task_configs_are_held_back_until_the_commit(log: Log):
    log.put(records.connector_config("a", {"x": "1"}), records.task_config(A0, {"n": "0"}))
    assert log.snapshot.tasks("a") == ()
    assert log.snapshot.task_config(A0) is None
    assert log.put(records.tasks_commit("a", 1)) == [TaskConfigsUpdated("a")]
    assert log.snapshot.tasks("a") == (A0,)
    assert log.snapshot.task_config(A0) == {"n": "0"}


def test_incomplete_task_configs_make_a_connector_inconsistent(log: Log):
    log.put(records.connector_config("a", {}), *generation(A0, A1))
    log.put(records.task_config(A1, {"n": "new"}), records.tasks_commit("a", 2))
    assert log.snapshot.inconsistent == {"a"}
    assert log.snapshot.tasks("a") == ()
    assert log.snapshot.task_config(A1) == {"n": "1"}
    log.put(*generation(A0, A1))
    assert log.snapshot.inconsistent == frozenset()
    assert log.snapshot.tasks("a") == (A0, A1)


def test_deferred_configs_of_an_inconsistent_commit_are_forgotten(log: Log):
    log.put(records.connector_config("a", {}), records.task_config(A1, {}), records.tasks_commit("a", 2))
    log.put(records.task_config(A0, {}), records.tasks_commit("a", 2))
    assert log.snapshot.inconsistent == {"a"}


def test_surplus_task_configs_left_by_compaction_are_accepted(log: Log):
    log.put(records.connector_config("a", {}), records.task_config(A2, {}), *generation(A0, A1))
    assert log.snapshot.inconsistent == frozenset()
    assert log.snapshot.tasks("a") == (A0, A1)


def test_commit_of_an_unknown_connector_is_ignored(log: Log):
    assert log.put(*generation(A0)) == []
    log.put(records.connector_config("a", {}))
    assert log.snapshot.tasks("a") == ()
    assert log.snapshot.inconsistent == frozenset()
    assert log.snapshot.pending_fencing == frozenset()


def test_configs_of_a_deleted_connector_do_not_reach_its_successor(log: Log):
    log.put(records.connector_config("a", {}), records.task_config(A0, {"old": "1"}), records.connector_removed("a"))
    log.put(records.connector_config("a", {}), records.task_config(A1, {}), records.tasks_commit("a", 2))
    assert log.snapshot.inconsistent == {"a"}


def test_generation_counts_commits_and_goes_on_after_a_deletion(log: Log):
    log.put(records.connector_config("a", {}))
    assert log.snapshot.generation("a") is None
    log.put(*generation(A0))
    assert log.snapshot.generation("a") == 0
    log.put(*generation(A0, A1))
    assert log.snapshot.generation("a") == 1
    log.put(records.tasks_commit("a", 0))
    assert log.snapshot.generation("a") == 2
    log.put(records.connector_removed("a"), records.connector_config("a", {}), *generation(A0))
    assert log.snapshot.generation("a") == 3


def test_generation_stays_without_task_configs(log: Log):
    log.put(records.connector_config("a", {}), records.tasks_commit("a", 0))
    assert log.snapshot.generation("a") is None
    assert log.snapshot.inconsistent == frozenset()


def test_commit_offset_identifies_the_generation_despite_compaction(log: Log):
    log.put(records.connector_config("a", {}), *generation(A0), *generation(A0))
    assert log.snapshot.commit_offsets["a"] == log.next_offset - 1


def test_connector_is_ready_when_a_task_count_record_follows_the_commit(log: Log):
    log.put(records.connector_config("a", {}), *generation(A0))
    assert log.snapshot.pending_fencing == {"a"}
    assert not log.snapshot.is_ready("a")
    assert log.put(records.task_count("a", 1)) == [TaskCountRecorded("a", 1)]
    assert log.snapshot.is_ready("a")
    log.put(*generation(A0, A1))
    assert not log.snapshot.is_ready("a")
    assert log.snapshot.task_count_records == {"a": 1}


def test_task_count_record_survives_the_deletion_so_that_a_successor_is_fenced(log: Log):
    log.put(records.connector_config("a", {}), *generation(A0, A1), records.task_count("a", 2))
    log.put(records.connector_removed("a"), records.target_state_removed("a"), records.connector_config("a", {}))
    log.put(*generation(A0))
    assert log.snapshot.task_count_records == {"a": 2}
    assert not log.snapshot.is_ready("a")


def test_kip_name_of_the_task_count_record_is_understood(log: Log):
    log.put(records.connector_config("a", {}), *generation(A0))
    log.put_raw("tasks-count-a", {"task-count": 1})
    assert log.snapshot.is_ready("a")


def test_new_connector_is_started_unless_a_target_state_came_first(log: Log):
    log.put(records.target_state("p", TargetState.PAUSED))
    assert log.put(records.connector_config("p", {}), records.connector_config("a", {})) == [
        ConnectorConfigUpdated("p"),
        ConnectorConfigUpdated("a"),
    ]
    assert log.snapshot.target_states == {"p": TargetState.PAUSED, "a": TargetState.STARTED}


def test_state_v2_is_preferred(log: Log):
    log.put_raw("target-state-a", {"state": "PAUSED", "state.v2": "STOPPED"})
    assert log.snapshot.target_state("a") is TargetState.STOPPED
    log.put_raw("target-state-a", {"state": "PAUSED"})
    assert log.snapshot.target_state("a") is TargetState.PAUSED
    log.put_raw("target-state-a", {"state": "STARTED", "state.v2": 5})
    assert log.snapshot.target_state("a") is TargetState.STARTED


def test_unchanged_target_state_is_no_change(log: Log):
    log.put(records.connector_config("a", {}))
    assert log.put(records.target_state("a", TargetState.STARTED)) == []
    assert log.put(records.target_state("a", TargetState.STOPPED)) == [TargetStateChanged("a", TargetState.STOPPED)]


def test_lost_target_state_of_a_connector_is_started(log: Log):
    log.put(records.connector_config("a", {}), records.target_state("a", TargetState.PAUSED))
    assert log.put(records.target_state_removed("a"), records.target_state_removed("b")) == []
    assert log.snapshot.target_states == {"a": TargetState.STARTED}


def test_removed_connector_takes_its_tasks_along(log: Log):
    log.put(records.connector_config("a", {}), records.connector_config("a-b", {}), *generation(A0))
    assert log.put(records.connector_removed("a")) == [ConnectorConfigRemoved("a")]
    assert list(log.snapshot.connectors) == ["a-b"]
    assert log.snapshot.task_configs == {}
    assert log.snapshot.tasks("a") == ()


def test_connector_names_may_hold_dashes_and_prefixes(log: Log):
    name = "task-connector-1"
    log.put(records.connector_config(name, {}), records.task_config(TaskId(name, 0), {}), records.tasks_commit(name, 1))
    assert log.snapshot.tasks(name) == (TaskId(name, 0),)


def test_session_key_is_read_from_its_record(log: Log):
    key = SessionKey(b"secret", "HmacSHA256", 5)
    assert log.put(records.session_key(key)) == [SessionKeyUpdated(key)]
    assert log.snapshot.session_key == key


def test_session_key_is_hidden_once_read(log: Log):
    secret = b"a session key that nobody else has"
    log.put(records.session_key(SessionKey(secret, "HmacSHA256", 1)))
    record = records.session_key(SessionKey(secret, "HmacSHA256", 1))[1]
    assert base64.b64encode(secret).decode() not in hide_known((record or b"").decode())
    assert "secret" not in repr(log.snapshot)


def test_restart_request_defaults_to_false(log: Log):
    assert log.put_raw("restart-connector-a", {"include-tasks": True, "only-failed": "yes"}) == [
        RestartRequested("a", True, False)
    ]


def test_logger_level_is_read_from_its_record(log: Log):
    assert log.put(records.logger_level("a.b", "DEBUG")) == [LoggerLevelSet("a.b", "DEBUG")]
    assert log.snapshot.logger_levels == {"a.b": "DEBUG"}


def test_assignment_survives_the_round_trip(log: Log):
    value = Assignment(
        7, (WorkerAssignment("i1", "http://h:1", ("a",), (A0, TaskId("b-c", 3))), WorkerAssignment("i2", ""))
    )
    assert log.put(records.assignment(value)) == [AssignmentChanged(7)]
    assert log.snapshot.assignment == value
    assert value.of("i1") is value.workers[0]
    assert value.of("i3") is None
    waiting = (HeldBackWork(WorkerAssignment("i3", "http://l:1", ("d",), (TaskId("d", 0),)), 1_700_000_000_000),)
    absent = replace(value, generation=8, waiting=waiting)
    assert log.put(records.assignment(absent)) == [AssignmentChanged(absent.generation)]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("nonsense", {}),
        ("connector-a", b"{half"),
        ("connector-a", []),
        ("connector-a", {"properties": 1}),
        ("connector-a", {"properties": {"x": 1}}),
        ("connector-a", {}),
        ("target-state-a", {"state": "FLYING"}),
        ("target-state-a", {}),
        ("task-a-x", {"properties": {}}),
        ("task-7", {"properties": {}}),
        ("task-a-0", b"null"),
        ("commit-a", {"tasks": "two"}),
        ("commit-a", {"tasks": True}),
        ("commit-a", {"tasks": -1}),
        ("tasks-fencing-a", {}),
        ("session-key", {"key": "!", "algorithm": "HmacSHA256", "creation-timestamp": 1}),
        ("session-keys", {}),
        ("logger-cluster-x", {"level": None}),
        ("fencepost-assignment", {"generation": 1, "workers": [{"incarnation": "i"}]}),
        ("fencepost-assignment", {"generation": 1, "workers": 1}),
    ],
)
def test_malformed_record_is_skipped_but_counted(log: Log, key: str, value: Any):
    log.put(records.connector_config("a", {"x": "1"}))
    before = log.snapshot
    assert log.put_raw(key, value) == []
    after = log.snapshot
    assert after.offset == before.offset + 1
    assert (after.connectors, after.target_states, after.inconsistent) == (
        before.connectors,
        before.target_states,
        frozenset(),
    )


@pytest.mark.parametrize("key", [None, b"", b"\xff"])
def test_record_without_a_readable_key_is_skipped(log: Log, key: bytes | None):
    assert apply(log.builder, 41, key, b"{}") == []
    assert log.snapshot.offset == 42


def test_snapshot_does_not_change_when_the_builder_goes_on(log: Log):
    log.put(records.connector_config("a", {"x": "1"}), *generation(A0))
    before = log.snapshot
    log.put(records.connector_removed("a"), records.connector_config("b", {}))
    assert list(before.connectors) == ["a"]
    assert before.tasks("a") == (A0,)


def test_freezing_shares_unchanged_parts(log: Log):
    log.put(records.connector_config("a", {}), *generation(A0))
    before = log.snapshot
    log.put(records.target_state("a", TargetState.PAUSED))
    assert log.snapshot.task_configs is before.task_configs


def test_leave_removes_only_the_incarnation_that_it_names(log: Log):
    log.put(records.worker_incarnation("u", "first"), records.worker_left("u", "first"))
    assert (dict(log.snapshot.incarnations), dict(log.snapshot.abilities)) == ({}, {})
    log.put(records.worker_incarnation("u", "second"))
    log.put(records.worker_left("u", "first"))  # delivered late
    assert dict(log.snapshot.incarnations) == {"u": "second"}
    assert log.snapshot.abilities["u"].is_ready


def test_late_announcement_does_not_revive_an_incarnation_that_left(log: Log):
    log.put(records.worker_left("u", "first"), records.worker_incarnation("u", "first"))
    assert dict(log.snapshot.incarnations) == {}


def test_compaction_keeps_a_successor_despite_a_late_leave_before_it(log: Log):
    written = [records.worker_incarnation("u", "first"), records.worker_incarnation("u", "second")]
    log.put(*dict([*written, records.worker_left("u", "first")]).items())
    assert dict(log.snapshot.incarnations) == {"u": "second"}


def test_tombstone_leave_of_older_workers_removes_any_incarnation(log: Log):
    log.put(records.worker_incarnation("u", "first"), ((records.WORKER + "u").encode(), None))
    assert dict(log.snapshot.incarnations) == {}
