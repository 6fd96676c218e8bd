"""What the connectors of a snapshot are, as far as their classes are here."""

from collections.abc import Mapping
from typing import Any

from fencepost.api import SinkConnector, SourceConnector
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


def is_dataframe(snapshot: ClusterSnapshot, name: str) -> bool:
    """Say whether a connector, whose class is here, reads or writes DataFrames."""
    name_of_class = snapshot.connectors.get(name, {}).get("connector.class") or ""
    return ConnectorClasses().is_dataframe(name_of_class)


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

    def is_source(self, snapshot: ClusterSnapshot, connector: str) -> bool:
        """Say whether a connector is a source, as far as its class is here."""
        return type_of(snapshot, connector) is ConnectorType.SOURCE
