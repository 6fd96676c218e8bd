"""Finds the clusters where a connector's tasks may hold transactional ids: every unfenced generation may write to one.

A generation writes to the cluster that the connector's config named when its task configs were committed. The next
config may name other brokers, and compaction removes the old one. So the config topic has a separate record of the
clusters that a round of fencing must reach (docs/decisions/0025). All functions are pure. (E2)
"""

from fencepost.config.raw import RawConfig
from fencepost.storage import records
from fencepost.storage.records import Encoded
from fencepost.storage.snapshot import ClusterSnapshot

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
