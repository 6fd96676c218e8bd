"""Where tasks of a connector may hold transactional ids: on each cluster that a generation not yet fenced writes to.

A generation writes where the connector's config said when its task configs were committed. The next config may name
other brokers, and compaction takes the former one, so what a round of fencing has to reach is a record of its own in
the config topic (docs/decisions/0025). All of it is pure. (E2)
"""

from collections.abc import Iterable, Mapping

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
    """Return what of a connector's config leads its producers to their cluster; nothing: the worker's settings do."""
    return {k: v for k, v in config.items() if k in _CONNECTION or k.startswith(_CONNECTION_PREFIXES)}


def servers_of(config: RawConfig) -> frozenset[str] | None:
    """Return the brokers that a config names, which distinguish two targets; None: the worker's."""
    servers = config.get(_BOOTSTRAP)
    return None if servers is None else frozenset(server.strip() for server in servers.split(","))


def targets(snapshot: ClusterSnapshot, connector: str) -> tuple[RawConfig, ...]:
    """Return every target on which tasks of the connector may hold ids.

    Without a record it is that of the config which the newest generation was committed with (an older version, or a
    Java leader, wrote it), or that of the worker.
    """
    recorded = snapshot.producer_targets.get(connector)
    if recorded is not None:
        return recorded
    if connector not in snapshot.task_count_records:
        return ()
    return (target_of(snapshot.applied_configs.get(connector, _EMPTY)),)


def is_covered(snapshot: ClusterSnapshot, connector: str) -> bool:
    """Say whether tasks that start with the newest config write where the next round of fencing will look."""
    wanted = servers_of(snapshot.connectors.get(connector, _EMPTY))
    return any(servers_of(target) == wanted for target in targets(snapshot, connector))


def configs_to_fence(snapshot: ClusterSnapshot, connector: str, config: RawConfig | None = None) -> list[RawConfig]:
    """Return a config for each cluster on which ids may be held, that of `config` (by default the newest) included."""
    newest = snapshot.connectors.get(connector, _EMPTY) if config is None else config
    others = [t for t in targets(snapshot, connector) if servers_of(t) != servers_of(newest)]
    return [newest, *others]


def with_target(snapshot: ClusterSnapshot, connector: str) -> tuple[RawConfig, ...]:
    """Return the targets once tasks with the newest config may start too. The newest settings of a cluster count."""
    return _merged([*targets(snapshot, connector), target_of(snapshot.connectors.get(connector, _EMPTY))])


def fenced(snapshot: ClusterSnapshot, connector: str) -> tuple[RawConfig, ...]:
    """Return the targets that are left when a round has fenced: that of the newest task configs."""
    return (target_of(snapshot.applied_configs.get(connector, _EMPTY)),)


def kept(snapshot: ClusterSnapshot, connector: str, then: tuple[RawConfig, ...]) -> list[Encoded]:
    """Return the record that says `then`; none where the worker's own settings lead everywhere, now as before."""
    recorded = snapshot.producer_targets.get(connector)
    applied = target_of(snapshot.connectors.get(connector, _EMPTY))
    if not any((*then, applied)):
        return [] if recorded is None else [records.producer_targets_removed(connector)]
    return [] if recorded == then else [records.producer_targets(connector, then)]


def _merged(each: Iterable[Mapping[str, str | None]]) -> tuple[RawConfig, ...]:
    return tuple({servers_of(target): target for target in each}.values())
