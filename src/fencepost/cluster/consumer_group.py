"""A consumer group belongs to one connector: another one would take its partitions, and commit in its name."""

from fencepost.cluster.errors import BadRequestError
from fencepost.config.raw import RawConfig
from fencepost.storage.snapshot import ClusterSnapshot

GROUP = "consumer.override.group.id"
_PLACE = (GROUP, "consumer.override.bootstrap.servers")
_OF_CONNECTORS = "connect-"


def ensure_own_group(snapshot: ClusterSnapshot, name: str, config: RawConfig) -> None:
    """Raise BadRequestError if a config would make a connector join a group of another one.

    Groups that are named after connectors are theirs also while there is no such connector: its offsets may be kept.
    The brokers of the two are not compared: one cluster has many names. A connector keeps the group that it has.
    """
    own = snapshot.connectors.get(name)
    if own is not None and all(own.get(key) == config.get(key) for key in _PLACE):
        return
    group = _group(name, config)
    if group.startswith(_OF_CONNECTORS) and group != f"{_OF_CONNECTORS}{name}":
        raise BadRequestError(
            f"Invalid value {group} for configuration {GROUP}: groups that begin with {_OF_CONNECTORS} belong to the "
            "connectors that they are named after; choose another name"
        )
    for other, stored in snapshot.connectors.items():
        if (GROUP in stored or GROUP in config) and other != name and _group(other, stored) == group:
            raise BadRequestError(
                f"Invalid value {group} for configuration {GROUP}: another connector has this group; choose another "
                "name"
            )


def _group(name: str, config: RawConfig) -> str:
    return (config.get(GROUP) or "").strip() or f"{_OF_CONNECTORS}{name}"
