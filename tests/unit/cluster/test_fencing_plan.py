"""What a round of fencing has to do: the rules of KIP-618."""

from fencepost.cluster.fencing import FencingPlan, plan_fencing
from fencepost.storage import records
from fencepost.storage.change import TaskId
from fencepost.storage.fold import apply
from fencepost.storage.snapshot import ClusterSnapshot, SnapshotBuilder


def folded(*encoded: records.Encoded) -> ClusterSnapshot:
    builder = SnapshotBuilder()
    for offset, (key, value) in enumerate(encoded):
        apply(builder, offset, key, value)
    return builder.freeze()


def generation(tasks: int, connector: str = "c") -> list[records.Encoded]:
    configs = [records.task_config(TaskId(connector, n), {"n": str(n)}) for n in range(tasks)]
    return [*configs, records.tasks_commit(connector, tasks)]


def both(*ids: str) -> tuple[str, ...]:
    """The ids of both lanes of each task."""
    return tuple(lane for id_ in ids for lane in (id_, f"{id_}#1"))


CONNECTOR = records.connector_config("c", {"name": "c"})


def test_fencing_plan_is_empty_when_the_task_count_is_already_recorded() -> None:
    snapshot = folded(CONNECTOR, *generation(2), records.task_count("c", 2))
    assert plan_fencing(snapshot, "g", "c") == FencingPlan()


def test_first_task_generation_is_recorded_without_fencing() -> None:
    assert plan_fencing(folded(CONNECTOR, *generation(3)), "g", "c") == FencingPlan((), 3)


def test_single_task_before_and_after_needs_no_fence() -> None:
    snapshot = folded(CONNECTOR, *generation(1), records.task_count("c", 1), *generation(1))
    assert plan_fencing(snapshot, "g", "c") == FencingPlan((), 1)


def test_every_recorded_producer_is_fenced_when_there_are_more_tasks() -> None:
    snapshot = folded(CONNECTOR, *generation(1), records.task_count("c", 1), *generation(3))
    assert plan_fencing(snapshot, "g", "c") == FencingPlan(both("g-c-0"), 3)


def test_every_recorded_producer_is_fenced_when_there_are_fewer_tasks() -> None:
    snapshot = folded(CONNECTOR, *generation(3), records.task_count("c", 3), *generation(1))
    assert plan_fencing(snapshot, "g", "c") == FencingPlan(both("g-c-0", "g-c-1", "g-c-2"), 1)


def test_unrecorded_task_generation_has_no_producers_to_fence() -> None:
    snapshot = folded(CONNECTOR, *generation(1), records.task_count("c", 1), *generation(5), *generation(2))
    assert plan_fencing(snapshot, "g", "c") == FencingPlan(both("g-c-0"), 2)


def test_producers_of_a_stopped_connector_are_fenced() -> None:
    snapshot = folded(CONNECTOR, *generation(2), records.task_count("c", 2), records.tasks_commit("c", 0))
    assert plan_fencing(snapshot, "g", "c") == FencingPlan(both("g-c-0", "g-c-1"), 0)


def test_producers_of_a_recreated_connector_are_fenced() -> None:
    snapshot = folded(
        CONNECTOR,
        *generation(2),
        records.task_count("c", 2),
        records.connector_removed("c"),
        records.target_state_removed("c"),
        CONNECTOR,
        *generation(1),
    )
    assert plan_fencing(snapshot, "g", "c") == FencingPlan(both("g-c-0", "g-c-1"), 1)
