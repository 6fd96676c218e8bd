"""What the connectors of a snapshot are, as far as their classes are here."""

from typing import Any

from fencepost.api import SourceConnector
from fencepost.cluster.info import ConnectorType
from fencepost.config import ConfigError
from fencepost.plugin import PluginKind, registry
from fencepost.storage.snapshot import ClusterSnapshot


def type_of(snapshot: ClusterSnapshot, name: str) -> ConnectorType:
    """Return what a connector is; unknown where its class is not here: a sink that Kafka Connect ran, for one."""
    try:
        found = registry().find(PluginKind.CONNECTOR, snapshot.connectors.get(name, {}).get("connector.class") or "")
    except ConfigError:
        return ConnectorType.UNKNOWN
    return ConnectorType.SOURCE if issubclass(found, SourceConnector) else ConnectorType.UNKNOWN


class ConnectorClasses:
    """Finds the classes of connectors by the names in their configs."""

    def find(self, name: str) -> type[Any]:
        """Return the class. Raises ConfigError for one that is not there."""
        return registry().find(PluginKind.CONNECTOR, name)

    def is_dataframe(self, name: str) -> bool:
        """Say whether a class plans splits. Raises ConfigError for one that is not there."""
        return bool(getattr(self.find(name), "is_dataframe", False))

    def is_source(self, snapshot: ClusterSnapshot, connector: str) -> bool:
        """Say whether a connector is a source, as far as its class is here."""
        return type_of(snapshot, connector) is ConnectorType.SOURCE
