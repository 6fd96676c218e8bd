"""How a mirror reaches its two clusters: settings of Kafka clients, under MirrorMaker's prefixes.

The settings of a client are combined from these prefixes, and later ones win: `CLUSTER.cluster.` (only connection
settings, as others would not fit every client), `KIND.`, `CLUSTER.KIND.`. CLUSTER is `source` or `target`, KIND is
`consumer`, `producer` or `admin`.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum

from fencepost.config.client import ConnectionConfig
from fencepost.kafka.setting.table import ClientKind
from fencepost.kafka.setting.translation import SettingsError, translate

_TO_CONNECT = ("ssl.", "sasl.")
_TO_CONNECT_EXACTLY = frozenset({"bootstrap.servers", "security.protocol", "security.providers"})
_NO_CLIENTS = frozenset({"consumer.poll.timeout.ms"})  # the mirror's own setting, despite its name
_OVERRIDES = "override."  # Connect's prefix for the clients that it creates
_CLIENT_ID = ConnectionConfig.key_of("client_id")


class FlowEnd(StrEnum):
    """The two ends of a flow."""

    SOURCE = "source"
    TARGET = "target"

    @property
    def other(self) -> "FlowEnd":
        return FlowEnd.TARGET if self is FlowEnd.SOURCE else FlowEnd.SOURCE


CLIENT_PREFIXES = (
    *(f"{cluster}.cluster." for cluster in FlowEnd),
    *(f"{kind.value}." for kind in ClientKind),
    *(f"{cluster}.{kind.value}." for cluster in FlowEnd for kind in ClientKind),
)
"""The prefixes of client settings."""


def client_settings(properties: Mapping[str, object]) -> dict[str, tuple[str, object]]:
    """Return the client settings among `properties`: by full key, the setting without prefix, and its value."""
    found = {}
    for key, value in properties.items():
        prefix = next((prefix for prefix in CLIENT_PREFIXES if key.startswith(prefix)), None)
        if prefix is not None and _is_for_clients(key, prefix):
            found[key] = (key.removeprefix(prefix), value)
    return found


def client_properties(
    properties: Mapping[str, object], cluster: FlowEnd, kind: ClientKind, *, client_id: str | None = None
) -> dict[str, object]:
    """Return the settings of a client of that kind and cluster, under Java's names.

    Args:
        properties: A connector's.
        client_id: The name of the client; it is appended to the user's, if there is one.
    """
    found = {setting: value for _, setting, value in _layered(properties, cluster, kind)}
    if client_id is not None:
        own = found.get(_CLIENT_ID)
        found[_CLIENT_ID] = f"{own}|{client_id}" if own else client_id
    return found


def client_keys(properties: Mapping[str, object], cluster: FlowEnd, kind: ClientKind) -> dict[str, str]:
    """Return the settings of a client of that kind and cluster, with the full keys that their values are from."""
    return {setting: key for key, setting, _ in _layered(properties, cluster, kind)}


def client_faults(properties: Mapping[str, object], cluster: FlowEnd) -> dict[str, str]:
    """Return faults of the settings of a cluster's clients, by key. No value is shown (E11)."""
    faults: dict[str, str] = {}
    for kind in ClientKind:
        keys = client_keys(properties, cluster, kind)
        try:
            translate(kind, client_properties(properties, cluster, kind))
        except SettingsError as error:
            faults |= {keys.get(setting, setting): reason for setting, reason in error.by_key.items()}
    return faults


def _layered(properties: Mapping[str, object], cluster: FlowEnd, kind: ClientKind) -> Iterator[tuple[str, str, object]]:
    """Yield key, setting and value of a client's settings, in order of increasing priority; null counts as absent."""
    given = client_settings(properties)
    for prefix in (f"{cluster}.cluster.", f"{kind.value}.", f"{cluster}.{kind.value}."):
        for key, (setting, value) in given.items():
            if key == prefix + setting and value is not None:
                yield key, setting, value


def _is_for_clients(key: str, prefix: str) -> bool:
    setting = key.removeprefix(prefix)
    if key in _NO_CLIENTS or setting.startswith(_OVERRIDES):
        return False
    return not prefix.endswith(".cluster.") or is_to_connect(setting)


def is_to_connect(setting: str) -> bool:
    """Say whether a setting is about the connection to a cluster, so that it fits clients of every kind."""
    return setting in _TO_CONNECT_EXACTLY or setting.startswith(_TO_CONNECT)
