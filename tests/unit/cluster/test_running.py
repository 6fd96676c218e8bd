"""What should run: one rule, whoever asks it."""

from dataclasses import replace

import pytest

from fencepost.cluster.running import changed, running, running_on, why_not
from fencepost.storage.change import Assignment, TargetState, TaskId, WorkerAssignment
from fencepost.storage.snapshot import ClusterSnapshot

TASK = TaskId("c", 0)
SNAPSHOT = ClusterSnapshot(
    connectors={"c": {"name": "c"}},
    commit_offsets={"c": 7},
    task_counts={"c": 1},
    assignment=Assignment(1, (WorkerAssignment("me", "http://w:1", ("c",), (TASK,)),)),
)
NOWHERE = {
    "connector c was deleted": replace(SNAPSHOT, connectors={}),
    "connector c has already generated a new set of task configs": replace(SNAPSHOT, inconsistent=frozenset({"c"})),
    "connector c was stopped": replace(SNAPSHOT, target_states={"c": TargetState.STOPPED}),
    "task c-0 has already been revoked from this worker": replace(SNAPSHOT, assignment=None),
}


def test_assigned_task_runs_in_its_newest_generation() -> None:
    assert running(SNAPSHOT) == {(TASK, 7): "me"}
    assert running_on(SNAPSHOT, "me") == {TASK: 7}
    assert why_not(SNAPSHOT, (TASK, 7), "me") is None


@pytest.mark.parametrize("reason", NOWHERE)
def test_all_queries_agree_that_a_task_runs_nowhere(reason: str) -> None:
    snapshot = NOWHERE[reason]
    assert running(snapshot) == {}
    assert running_on(snapshot, "me") == {}
    assert why_not(snapshot, (TASK, 7), "me") == reason


def test_changed_names_only_connectors_with_changed_task_starts() -> None:
    other = WorkerAssignment("other", "http://o:1", ("d",), (TaskId("d", 0), TaskId("e", 0)))
    assignment = Assignment(1, (WorkerAssignment("me", "http://w:1", ("c",), (TASK,)), other))
    configs = {name: {"name": name} for name in "cde"}
    before = replace(SNAPSHOT, connectors=configs, assignment=assignment, commit_offsets={"c": 7, "d": 8, "e": 9})
    assert changed(before, before) == set()
    without = replace(other, tasks=(TaskId("e", 0),))
    for after, names in (
        (replace(before, assignment=replace(assignment, workers=(assignment.workers[0], without))), {"d"}),
        (replace(before, assignment=None), {"c", "d", "e"}),
        (replace(before, commit_offsets={**before.commit_offsets, "d": 11}), {"d"}),
        (replace(before, target_states={"e": TargetState.STOPPED}), {"e"}),
        (replace(before, connectors={name: configs[name] for name in "cd"}), {"e"}),
    ):
        assert changed(before, after) == changed(after, before) == names


def test_tasks_of_a_paused_connector_run() -> None:
    assert running_on(replace(SNAPSHOT, target_states={"c": TargetState.PAUSED}), "me") == {TASK: 7}


def test_task_of_an_older_generation_or_another_worker_does_not_run() -> None:
    assert why_not(SNAPSHOT, (TASK, 6), "me") == "connector c has already generated a new set of task configs"
    assert why_not(SNAPSHOT, (TASK, 7), "another") == "task c-0 has already been revoked from this worker"
    assert running_on(SNAPSHOT, "another") == {}


def test_assigned_task_beyond_the_task_count_runs_nowhere() -> None:
    assert running(replace(SNAPSHOT, task_counts={"c": 0})) == {}
