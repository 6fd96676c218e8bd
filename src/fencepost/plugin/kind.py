"""The kinds of plug-ins, and their names in the REST API."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from fencepost.api import (
    ConfigProvider,
    Connector,
    Converter,
    HeaderConverter,
    Predicate,
    ReplicationPolicy,
    SinkConnector,
    Transform,
)
from fencepost.config.connector import ConnectorConfig
from fencepost.config.reference import names_in


class PluginKind(StrEnum):
    """A kind of plug-in. A member equals its value, so that layers below can name kinds by plain text."""

    CONNECTOR = "connector"
    TRANSFORM = "transform"
    PREDICATE = "predicate"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"
    REPLICATION_POLICY = "replication_policy"
    CONFIG_PROVIDER = "config_provider"

    @property
    def suffix(self) -> str:
        """Return the suffix that aliases of its classes omit."""
        return _SUFFIXES[self]

    @property
    def is_listed(self) -> bool:
        """Return whether `GET /connector-plugins` shows classes of this kind: those that Kafka Connect has, too."""
        return self is PluginKind.CONNECTOR or self in _TYPES

    def type_of(self, plugin: type[Any]) -> str:
        """Return the type that `GET /connector-plugins` gives a class of this kind: source or sink for a connector."""
        if self is PluginKind.CONNECTOR:
            return "sink" if issubclass(plugin, SinkConnector) else "source"
        return _TYPES[self]

    @property
    def base(self) -> type[Any]:
        return _BASES[self]

    @property
    def entry_point_group(self) -> str:
        return _GROUPS[self]


_SUFFIXES = {
    PluginKind.CONNECTOR: "Connector",
    PluginKind.TRANSFORM: "Transformation",
    PluginKind.PREDICATE: "Predicate",
    PluginKind.CONVERTER: "Converter",
    PluginKind.HEADER_CONVERTER: "HeaderConverter",
    PluginKind.REPLICATION_POLICY: "ReplicationPolicy",
    PluginKind.CONFIG_PROVIDER: "ConfigProvider",
}
_TYPES = {
    PluginKind.TRANSFORM: "transformation",
    PluginKind.PREDICATE: "predicate",
    PluginKind.CONVERTER: "converter",
    PluginKind.HEADER_CONVERTER: "header_converter",
}
_BASES: dict[PluginKind, type[Any]] = {
    PluginKind.CONNECTOR: Connector,
    PluginKind.TRANSFORM: Transform,
    PluginKind.PREDICATE: Predicate,
    PluginKind.CONVERTER: Converter,
    PluginKind.HEADER_CONVERTER: HeaderConverter,
    PluginKind.REPLICATION_POLICY: ReplicationPolicy,
    PluginKind.CONFIG_PROVIDER: ConfigProvider,
}
_GROUPS = {
    PluginKind.CONNECTOR: "fencepost.connectors",
    PluginKind.TRANSFORM: "fencepost.transforms",
    PluginKind.PREDICATE: "fencepost.predicates",
    PluginKind.CONVERTER: "fencepost.converters",
    PluginKind.HEADER_CONVERTER: "fencepost.header_converters",
    PluginKind.REPLICATION_POLICY: "fencepost.replication_policies",
    PluginKind.CONFIG_PROVIDER: "fencepost.config_providers",
}


_CONVERTERS = {
    ConnectorConfig.key_of("key_converter"): PluginKind.CONVERTER,
    ConnectorConfig.key_of("value_converter"): PluginKind.CONVERTER,
    ConnectorConfig.key_of("header_converter"): PluginKind.HEADER_CONVERTER,
}
_LISTS = {
    ConnectorConfig.key_of("transforms"): PluginKind.TRANSFORM,
    ConnectorConfig.key_of("predicates"): PluginKind.PREDICATE,
}


class ClassKey(NamedTuple):
    """The key of a class of a kind, and the prefix of the keys of the class's settings and of its version."""

    kind: PluginKind
    key: str
    prefix: str


def class_keys(config: Mapping[str, str | None]) -> Iterator[ClassKey]:
    """Yield the keys of converters that a config has, and those of all transforms and predicates that it lists."""
    for key, kind in _CONVERTERS.items():
        if key in config:
            yield ClassKey(kind, key, f"{key}.")
    for key, kind in _LISTS.items():
        for alias in aliases_of(config, key):
            prefix = f"{key}.{alias}."
            yield ClassKey(kind, f"{prefix}type", prefix)


def aliases_of(config: Mapping[str, str | None], key: str) -> list[str]:
    """Return the names in a list of transforms or predicates."""
    return names_in(config.get(key))
