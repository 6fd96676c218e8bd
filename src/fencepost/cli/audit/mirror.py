"""What the audit of a mirror compares, as its config says."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from fencepost.builtin.mirror.setting.clients import FlowEnd, client_keys, client_settings
from fencepost.builtin.mirror.source.connector import MirrorSourceConnector
from fencepost.builtin.mirror.source.position import last_of, place_within
from fencepost.config import ConfigError
from fencepost.config.raw import given_values
from fencepost.config.reference import has_references
from fencepost.kafka.setting.client_settings import begins_at, isolation_level, range_conf
from fencepost.kafka.setting.table import ClientKind
from fencepost.ledger.mirror_audit import MirroredPartition, MirrorScope
from fencepost.record import TopicPartition
from fencepost.redaction import HIDDEN

PROPERTIES, SOURCE_PROPERTIES = "--properties", "--source-properties"
_ROLE = "audit"
_TRANSFORMS = "transforms"


class GivenEnds(NamedTuple):
    """Settings of clients that the user gives.

    Those of the source replace some of the config, those of the target, if there are any, all of them.
    """

    source: Mapping[str, str]
    target: Mapping[str, str] | None


def mirror_scope(
    connector: type[MirrorSourceConnector],
    config: Mapping[str, str | None],
    offsets: Mapping[str, Any],
    ends: GivenEnds,
    reader: str,
) -> MirrorScope:
    """Return what to compare, from a mirror's config and the answer about its offsets. Raises ConfigError."""
    if (config.get(_TRANSFORMS) or "").strip():
        raise ConfigError(f"{_TRANSFORMS} may change what is mirrored, so source and target cannot be compared")
    mirror = connector(given_values(_known(config, ends)))
    settings = {**mirror.client(FlowEnd.SOURCE, ClientKind.CONSUMER, _ROLE), **ends.source}
    if isolation_level(settings) != "read_committed":
        raise ConfigError(
            "the mirror copies aborted records as well: only with isolation.level=read_committed can it "
            "be compared with its source"
        )
    committed = {"isolation.level": "read_committed"}
    given = ends.target or mirror.client(FlowEnd.TARGET, ClientKind.CONSUMER, _ROLE)
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


def _known(config: Mapping[str, str | None], ends: GivenEnds) -> dict[str, str | None]:
    """Return the config without values that workers do not show. Raises ConfigError for those that nobody has given."""
    needed = [(FlowEnd.SOURCE, ends.source, SOURCE_PROPERTIES)]
    needed += [(FlowEnd.TARGET, {}, PROPERTIES)] if ends.target is None else []
    for end, given, option in needed:
        for name, key in client_keys(config, end, ClientKind.CONSUMER).items():
            why = _why_unknown(key, config[key])
            if why and name not in given:
                raise ConfigError(f"{key}: {why}. Give {name} in a file, and name the file with {option}")
    clients = client_settings(config)
    return {key: value for key, value in config.items() if key not in clients or not _why_unknown(key, value)}


def _why_unknown(key: str, value: object) -> str:
    if HIDDEN in str(value):
        return "a worker does not show it"
    return "only workers look up what it refers to" if has_references({key: value}) else ""
