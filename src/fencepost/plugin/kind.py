"""What plug-ins there are, and how the REST API calls them."""

from enum import StrEnum
from typing import Any

from fencepost.api import Connector, Converter, HeaderConverter, Predicate, SinkConnector, Transform


class PluginKind(StrEnum):
    """A kind of plug-in. A member equals its value, so that layers below can name kinds by plain text."""

    CONNECTOR = "connector"
    TRANSFORM = "transform"
    PREDICATE = "predicate"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"

    @property
    def suffix(self) -> str:
        """Return what the aliases of its classes leave out at the end."""
        return _SUFFIXES[self]

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
}
_GROUPS = {
    PluginKind.CONNECTOR: "fencepost.connectors",
    PluginKind.TRANSFORM: "fencepost.transforms",
    PluginKind.PREDICATE: "fencepost.predicates",
    PluginKind.CONVERTER: "fencepost.converters",
    PluginKind.HEADER_CONVERTER: "fencepost.header_converters",
}
