"""What the connectors of a snapshot are, as far as their classes are here."""

import contextlib
from collections.abc import Mapping
from typing import Any

from fencepost.api import Connector, DataFrameStream, OffsetsInGroup, SinkConnector, SourceConnector, StreamConnector
from fencepost.cluster.info import ConnectorType
from fencepost.config import ConfigError
from fencepost.config.raw import RawConfig
from fencepost.plugin import PluginKind, registry
from fencepost.storage.snapshot import ClusterSnapshot


def type_of(snapshot: ClusterSnapshot, name: str) -> ConnectorType:
    """Return what a connector is; unknown where its class is not here."""
    return type_of_config(snapshot.connectors.get(name, {}))


def type_of_config(config: RawConfig) -> ConnectorType:
    """Return what a connector with this config is."""
    try:
        found = registry().find(PluginKind.CONNECTOR, config.get("connector.class") or "")
    except ConfigError:
        return ConnectorType.UNKNOWN
    if issubclass(found, SinkConnector):
        return ConnectorType.SINK
    return ConnectorType.SOURCE if issubclass(found, SourceConnector) else ConnectorType.UNKNOWN


def is_stream(snapshot: ClusterSnapshot, name: str) -> bool:
    """Say whether a connector, as far as its class is here, writes what it reads in transactions of its own."""
    return is_stream_config(snapshot.connectors.get(name, {}))


def is_stream_config(config: RawConfig) -> bool:
    """Say the same of a connector with this config."""
    try:
        found = registry().find(PluginKind.CONNECTOR, config.get("connector.class") or "")
    except ConfigError:
        return False
    return issubclass(found, StreamConnector | DataFrameStream)


def refusal_of_change(before: RawConfig, after: RawConfig) -> str | None:
    """Return why a connector's class must not change so; None where it may, or does not, or a class is not here."""
    try:
        former, new = (
            registry().find(PluginKind.CONNECTOR, each.get("connector.class") or "") for each in (before, after)
        )
    except ConfigError:
        return None
    return new.refusal_to_follow(former) if issubclass(new, Connector) else None


def is_dataframe(snapshot: ClusterSnapshot, name: str) -> bool:
    """Say whether a connector reads or writes DataFrames. Raises ConfigError where its class is not here."""
    name_of_class = snapshot.connectors.get(name, {}).get("connector.class") or ""
    return ConnectorClasses().is_dataframe(name_of_class)


def has_dataframes(snapshot: ClusterSnapshot) -> bool:
    """Say whether a connector, as far as its class is here, reads or writes DataFrames."""
    for name in snapshot.connectors:
        with contextlib.suppress(ConfigError):
            if is_dataframe(snapshot, name):
                return True
    return False


class ConnectorClasses:
    """Finds the classes of connectors by the names in their configs."""

    def find(self, name: str) -> type[Any]:
        """Return the class. Raises ConfigError for one that is not there."""
        return registry().find(PluginKind.CONNECTOR, name)

    def is_dataframe(self, name: str) -> bool:
        """Say whether a class reads or writes DataFrames. Raises ConfigError for one that is not there."""
        return bool(getattr(self.find(name), "is_dataframe", False))

    def converters(self, name: str) -> Mapping[str, str]:
        """Return the converters that a class has in place of the worker's; none where it is not there."""
        try:
            return dict(getattr(self.find(name), "converters", {}))
        except ConfigError:
            return {}

    def offsets_in_group(self, name: str, config: RawConfig) -> OffsetsInGroup | None:
        """Return how a connector's offsets are kept in a group; None where they are not, or its class is not here."""
        try:
            found = self.find(config.get("connector.class") or "")
        except ConfigError:
            return None
        if not issubclass(found, SourceConnector) or found.offsets_in_group is SourceConnector.offsets_in_group:
            return None
        return found({k: v for k, v in config.items() if v is not None}).offsets_in_group(name)

    def is_source(self, snapshot: ClusterSnapshot, connector: str) -> bool:
        """Say whether a connector is a source, as far as its class is here."""
        return type_of(snapshot, connector) is ConnectorType.SOURCE
