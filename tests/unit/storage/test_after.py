"""What a snapshot will be once some records are written."""

from fencepost.storage import records
from fencepost.storage.change import TaskId
from fencepost.storage.fold import after
from fencepost.storage.snapshot import ClusterSnapshot
from support.memory_topic import MemoryTopic

FIRST = [
    records.connector_config("a", {"name": "a"}),
    records.task_config(TaskId("a", 0), {"n": "0"}),
    records.task_config(TaskId("a", 1), {"n": "1"}),
    records.tasks_commit("a", 2),
    records.task_count("a", 2),
    records.worker_incarnation("u", "i"),
]
THEN = [
    records.connector_config("b", {"name": "b"}),
    records.task_config(TaskId("a", 0), {"n": "2"}),
    records.tasks_commit("a", 1),
]


def folded(encoded: list[records.Encoded]) -> ClusterSnapshot:
    return MemoryTopic().write(*encoded)


def test_snapshot_after_records_equals_the_snapshot_that_folds_them() -> None:
    before = folded(FIRST)
    assert after(before, THEN) == folded([*FIRST, *THEN])
    assert before == folded(FIRST)


def test_a_removed_connector_takes_its_task_configs_along() -> None:
    gone = after(folded(FIRST), [records.connector_removed("a")])
    assert gone == folded([*FIRST, records.connector_removed("a")])
    assert not gone.task_configs
