"""What the audit of a mirror compares, as its config says."""

from collections.abc import Mapping
from typing import Any

from fencepost.config import ConfigError
from fencepost.config.raw import given_values
from fencepost.kafka.setting.client_settings import begins_at, isolation_level, range_conf
from fencepost.kafka.setting.table import ClientKind
from fencepost.ledger.mirror_audit import MirroredPartition, MirrorScope
from fencepost.mirror.setting.clients import FlowEnd
from fencepost.mirror.source.connector import MirrorSourceConnector
from fencepost.mirror.source.position import last_of, place_within
from fencepost.record import TopicPartition

_ROLE = "audit"
_TRANSFORMS = "transforms"


def mirror_scope(
    connector: type[MirrorSourceConnector],
    config: Mapping[str, str | None],
    offsets: Mapping[str, Any],
    target: Mapping[str, str] | None,
    reader: str,
) -> MirrorScope:
    """Return what to compare, from a mirror's config and the answer about its offsets. Raises ConfigError.

    `target` has the settings of the target's clients, if they are not those of the config.
    """
    if (config.get(_TRANSFORMS) or "").strip():
        raise ConfigError(f"{_TRANSFORMS} may change what is mirrored, so source and target cannot be compared")
    mirror = connector(given_values(config))
    settings = mirror.client(FlowEnd.SOURCE, ClientKind.CONSUMER, _ROLE)
    if isolation_level(settings) != "read_committed":
        raise ConfigError(
            "the mirror copies aborted records as well: only with isolation.level=read_committed can it "
            "be compared with its source"
        )
    committed = {"isolation.level": "read_committed"}
    given = target or mirror.client(FlowEnd.TARGET, ClientKind.CONSUMER, _ROLE)
    remote = mirror.selection().remote_topic
    partitions = [
        MirroredPartition(place, TopicPartition(remote(place.topic), place.partition), last_of(each["offset"]) + 1)
        for each in offsets.get("offsets", ())
        if (place := place_within(each["partition"], mirror.source_cluster_alias)) is not None and each["offset"]
    ]
    return MirrorScope(
        range_conf({**settings, **committed}, reader).conf,
        range_conf({**given, **committed}, reader).conf,
        sorted(partitions, key=lambda each: each.place),
        from_start=begins_at(settings) == "earliest",
    )
