"""Zombie fencing: the clusters where tasks may hold transactional ids, and the plan of a round (KIP-618). Pure. (E2)

A generation writes to the cluster that the connector's config named when its task configs were committed. The next
config may name other brokers, and compaction removes the old one. So the config topic has a separate record of the
clusters that a round of fencing must reach (docs/decisions/0025).
"""

from dataclasses import dataclass

from fencepost.config.reference import RawConfig
from fencepost.storage import records
from fencepost.storage.records import Encoded
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.transaction import lane_ids

_PREFIX = "producer.override."
_BOOTSTRAP = f"{_PREFIX}bootstrap.servers"
_CONNECTION = (_BOOTSTRAP, f"{_PREFIX}security.protocol", f"{_PREFIX}transaction.timeout.ms")
_CONNECTION_PREFIXES = (f"{_PREFIX}sasl.", f"{_PREFIX}ssl.")

_EMPTY: RawConfig = {}


def target_of(config: RawConfig) -> dict[str, str | None]:
    """Return the settings of a connector that choose its producers' cluster; if empty, the worker's settings do."""
    return {k: v for k, v in config.items() if k in _CONNECTION or k.startswith(_CONNECTION_PREFIXES)}


def servers_of(config: RawConfig) -> frozenset[str] | None:
    """Return the brokers that a config names; None for the worker's. Targets with other brokers are different."""
    servers = config.get(_BOOTSTRAP)
    return None if servers is None else frozenset(server.strip() for server in servers.split(","))


def targets(snapshot: ClusterSnapshot, connector: str) -> tuple[RawConfig, ...]:
    """Return every target on which tasks of the connector may hold ids.

    If there is no record (an older version or a Java leader wrote the configs), this is the target of the config with
    which the newest generation was committed, or the worker's.
    """
    recorded = snapshot.producer_targets.get(connector)
    if recorded is not None:
        return recorded
    if connector not in snapshot.task_count_records:
        return ()
    return (target_of(snapshot.applied_configs.get(connector, _EMPTY)),)


def is_covered(snapshot: ClusterSnapshot, connector: str) -> bool:
    """Say whether the next round of fencing reaches the cluster to which tasks with the newest config write."""
    wanted = servers_of(snapshot.connectors.get(connector, _EMPTY))
    return any(servers_of(target) == wanted for target in targets(snapshot, connector))


def configs_to_fence(snapshot: ClusterSnapshot, connector: str, config: RawConfig | None = None) -> list[RawConfig]:
    """Return a config for each cluster where tasks may hold ids, including that of `config` (default: the newest)."""
    newest = snapshot.connectors.get(connector, _EMPTY) if config is None else config
    others = [t for t in targets(snapshot, connector) if servers_of(t) != servers_of(newest)]
    return [newest, *others]


def with_target(snapshot: ClusterSnapshot, connector: str) -> tuple[RawConfig, ...]:
    """Return the targets with that of the newest config added. For each cluster the newest settings count."""
    every = [*targets(snapshot, connector), target_of(snapshot.connectors.get(connector, _EMPTY))]
    return tuple({servers_of(target): target for target in every}.values())


def fenced(snapshot: ClusterSnapshot, connector: str) -> tuple[RawConfig, ...]:
    """Return the targets that remain after a round of fencing: that of the newest task configs."""
    return (target_of(snapshot.applied_configs.get(connector, _EMPTY)),)


def kept(snapshot: ClusterSnapshot, connector: str, then: tuple[RawConfig, ...]) -> list[Encoded]:
    """Return the record of the targets `then`, unless it is stored already or only the worker's settings were used."""
    recorded = snapshot.producer_targets.get(connector)
    applied = target_of(snapshot.connectors.get(connector, _EMPTY))
    if not any((*then, applied)):
        return [] if recorded is None else [records.producer_targets_removed(connector)]
    return [] if recorded == then else [records.producer_targets(connector, then)]


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
