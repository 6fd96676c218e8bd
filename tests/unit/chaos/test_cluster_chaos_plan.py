"""The plan of a cluster's faults keeps its quotas, and torn writes of a leader are seen."""

from collections import Counter

import pytest

from fencepost.storage import records
from fencepost.storage.change import TargetState, TaskId
from support.chaos.cluster_fault import IN_WRITE, WRITE_POINTS, Cut, Write, cluster_plan
from support.chaos.whole_writes import torn_writes

QUOTAS = {Cut.KILL: 2, Cut.STOP: 4, Cut.BROKER_KILL: 1}
TASKS = [records.task_config(TaskId("c", n), {"a": "b"}) for n in range(2)]
COMMIT = records.tasks_commit("c", 2)
STOPPED = [records.tasks_commit("c", 0), records.target_state("c", TargetState.STOPPED)]
DELETED = [records.connector_removed("c"), records.target_state_removed("c")]
CONFIG = records.connector_config("c", {"a": "b"})
FOREIGN = [
    records.connector_config("other", {}),
    records.task_count("c", 2),
    records.worker_left("http://w/", "i"),
    (b"what", b"?"),
]


def test_cluster_plan_meets_the_quota_of_every_fault_and_write():
    faults = cluster_plan(5, QUOTAS, 5)
    assert {cut: sum(f.cut is cut for f in faults) for cut in QUOTAS} == QUOTAS
    met = Counter((f.write, f.point) for f in faults if f.cut in IN_WRITE)
    assert met == {(write, point): 1 for write in Write for point in WRITE_POINTS}
    assert {f.is_leader for f in faults if f.cut is Cut.KILL} == {True, False}
    assert any(f.is_rescaled for f in faults if f.cut is Cut.STOP and f.is_leader)


def test_the_same_seed_plans_the_same_faults_of_a_cluster():
    assert cluster_plan(5, QUOTAS, 1) == cluster_plan(5, QUOTAS, 1) != cluster_plan(6, QUOTAS, 1)


@pytest.mark.parametrize(
    "whole",
    [
        [CONFIG, *TASKS, COMMIT, *STOPPED, CONFIG, *DELETED],
        [CONFIG, FOREIGN[0], TASKS[0], FOREIGN[1], TASKS[1], FOREIGN[2], COMMIT, FOREIGN[3]],
        [records.target_state("c", TargetState.STOPPED), CONFIG],
        [CONFIG, records.target_state("c", TargetState.PAUSED), records.target_state("c", TargetState.STARTED)],
    ],
)
def test_whole_writes_are_not_torn(whole):
    assert torn_writes(whole) == []


@pytest.mark.parametrize(
    "torn",
    [
        [CONFIG, *TASKS],
        [CONFIG, TASKS[0], CONFIG, TASKS[1], COMMIT],
        [CONFIG, TASKS[1], COMMIT],
        [CONFIG, COMMIT],
        [CONFIG, *TASKS, COMMIT, STOPPED[1]],
        [CONFIG, DELETED[0]],
        [CONFIG, DELETED[0], CONFIG, DELETED[1]],
    ],
)
def test_write_with_a_missing_part_is_torn(torn):
    assert torn_writes(torn)
