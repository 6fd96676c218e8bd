"""Zombie fencing: plans a round, by the rules of KIP-618. Pure."""

from dataclasses import dataclass

from fencepost.cluster.targets import targets
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.transaction import lane_ids


def task_transactional_id(group_id: str, connector: str, task: int) -> str:
    """Return the transactional id of a source task, the same that Kafka Connect uses."""
    return f"{group_id}-{connector}-{task}"


def task_transactional_ids(group_id: str, connector: str, task: int) -> tuple[str, str]:
    """Return all transactional ids that a source task may use. They are always fenced together (E2)."""
    return lane_ids(task_transactional_id(group_id, connector, task))


def leader_transactional_id(group_id: str) -> str:
    """Return the transactional id with which the leader writes the config topic (E4)."""
    return f"connect-cluster-{group_id}"


@dataclass(frozen=True)
class FencingPlan:
    """The plan of a round: fence `transactional_ids`, then record `task_count`. If that is None, do nothing."""

    transactional_ids: tuple[str, ...] = ()
    task_count: int | None = None


def plan_fencing(snapshot: ClusterSnapshot, group_id: str, connector: str) -> FencingPlan:
    """Plan a round, by the rules of Kafka Connect's leader. Pure.

    If a task-count record follows the newest task configs, there is nothing to do. If no count was ever recorded, or if
    the old and the new count are both one on the same cluster (the id fences itself), only the count is recorded.
    Otherwise every id of the recorded count is fenced.
    """
    if connector not in snapshot.pending_fencing:
        return FencingPlan()
    recorded = snapshot.task_count_records.get(connector)
    count = snapshot.task_counts.get(connector, 0)
    if recorded is None or (recorded == 1 and count == 1 and len(targets(snapshot, connector)) == 1):
        return FencingPlan(task_count=count)
    ids = tuple(id_ for n in range(recorded) for id_ in task_transactional_ids(group_id, connector, n))
    return FencingPlan(ids, count)
