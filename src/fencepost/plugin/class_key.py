"""The keys with which a connector's config names classes of plug-ins, other than the connector's own."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from fencepost.config.connector import ConnectorConfig
from fencepost.config.raw import names_in
from fencepost.plugin.kind import PluginKind

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
