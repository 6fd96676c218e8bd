"""Finds keys of a connector's config that nothing reads, and that look like a key that is read.

A config may hold any keys: notes of its authors, or settings that a connector reads without declaring them. So a key is
only reported if
- it stands below an alias that is not in `transforms`, `predicates` or `topic.creation.groups`, or
- a built-in transform or predicate does not read it, or
- it is similar to a key, or to the beginning of keys, that is read; below a key that a Java connector declares, it is
  left alone, or
- an older version of the connector read it.
No value is ever shown (E11).
"""

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from fencepost.api import Connector, SinkConnector
from fencepost.cluster.info import KeyWarning
from fencepost.config import Config, ConfigError
from fencepost.config.connector import (
    OUTPUT,
    PLUGIN_VERSION,
    ConnectorConfig,
    DeadLetterConfig,
    RuntimeChoice,
    SinkChoice,
    SourceConnectorConfig,
    implicit_transform_settings,
    output_properties,
)
from fencepost.config.reference import has_references, names_in
from fencepost.config.topic_creation import DEFAULT_GROUP, GROUP_KEYS, PREFIX
from fencepost.hook.hosted_task import KnowsSettings
from fencepost.kafka.setting.table import ClientKind
from fencepost.plugin import PluginKind, PluginRegistry
from fencepost.worker.plan import AnyStream
from fencepost.worker.validation.chain import CONVERTERS, framework_config

SIMILAR = 0.88  # `value.convertor`, `tasks.maxx`; not `topic` and `topics`, which connectors have beside each other
SHORTEST = 6
_TRANSFORMS, _PREDICATES = (ConnectorConfig.key_of(name) for name in ("transforms", "predicates"))
_GROUPS = SourceConnectorConfig.key_of("topic_creation_group_names")
_OVERRIDES = tuple(f"{kind.value}.override." for kind in ClientKind)
_CLIENTS = tuple(f"{kind.value}." for kind in ClientKind)
_ALIASED = {
    f"{_TRANSFORMS}.": (_TRANSFORMS, PluginKind.TRANSFORM, {one.key for one in implicit_transform_settings()}),
    f"{_PREDICATES}.": (_PREDICATES, PluginKind.PREDICATE, set[str]()),
}
_OF_ALL = frozenset((*RuntimeChoice.settings(), *DeadLetterConfig.settings(), *SinkChoice.settings()))
_OF_OUTPUT = frozenset((_TRANSFORMS, _PREDICATES, *CONVERTERS))
_BUILT_IN = "fencepost."
_MIRRORS = ("MirrorSourceConnector", "MirrorSinkConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector")
_FAMILIES = (*_ALIASED, *(f"{key}." for key in CONVERTERS), *_OVERRIDES, PREFIX)

# Keys that a later version of a connector has renamed: configs on the web still have the old ones.
_OF_DEBEZIUM = "io.debezium.connector."
_HISTORY, _SCHEMA_HISTORY = "database.history", "schema.history.internal"
_SINCE_DEBEZIUM_2 = {
    "database.server.name": "topic.prefix",
    "mongodb.name": "topic.prefix",
    _HISTORY: _SCHEMA_HISTORY,
    "database.dbname": "database.names",
    "heartbeat.topics.prefix": "topic.heartbeat.prefix",
    "transaction.topic": "topic.transaction",
    "toasted.value.placeholder": "unavailable.value.placeholder",
    "sanitize.field.names": "field.name.adjustment.mode",
    **{
        f"{what}.{old}list": f"{what}.{new}.list"
        for what in ("database", "schema", "table", "column", "collection")
        for old, new in (("white", "include"), ("black", "exclude"))
    },
}


def key_warnings(
    given: Mapping[str, str], connector: type[Connector], converters: Mapping[str, str], plugins: PluginRegistry
) -> list[KeyWarning]:
    """Return a warning for each key that looks like a typo.

    Args:
        given: The config.
        converters: The classes of its converters, also of those that it inherits.
    """
    return _Reading(given, connector, converters, plugins).warnings()


def renamed_keys(class_name: str, keys: Iterable[str], read: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the keys that a connector read before Debezium 2, each with its name now.

    Args:
        class_name: The connector's class.
        read: The keys that it declares.
    """
    for key in keys if class_name.startswith(_OF_DEBEZIUM) else ():
        is_of_history = key.startswith(f"{_HISTORY}.") and any(one.startswith(_SCHEMA_HISTORY) for one in read)
        new = _SCHEMA_HISTORY + key.removeprefix(_HISTORY) if is_of_history else _SINCE_DEBEZIUM_2.get(key)
        if new is not None and key not in read and (is_of_history or new in read):
            yield key, new


class _Reading:
    """What reads the keys of one config. `outer` is the beginning of its keys in the config that it is a part of."""

    def __init__(
        self,
        given: Mapping[str, str],
        connector: type[Connector],
        converters: Mapping[str, str],
        plugins: PluginRegistry,
        outer: str = "",
    ) -> None:
        self._given = given
        self._connector = connector
        self._converters = converters
        self._plugins = plugins
        self._outer = outer
        self._read = _OF_OUTPUT if outer else frozenset((*_OF_ALL, *framework_config(connector).settings()))
        self._is_java = isinstance(connector, KnowsSettings)
        name = plugins.name_of(PluginKind.CONNECTOR, connector) if self._is_java else ""
        self._renamed = dict(renamed_keys(name, given, connector.settings().keys()))
        self._read |= connector.settings().keys()
        if any(connector is plugins.find(PluginKind.CONNECTOR, name) for name in _MIRRORS):
            for name in _MIRRORS:  # which share the keys of one file
                self._read |= plugins.find(PluginKind.CONNECTOR, name).settings().keys()

    def warnings(self) -> list[KeyWarning]:
        found = {key: self.found(key) for key in self._given}
        if self._is_stream:
            output = output_properties(self._given)
            inner = _Reading(output, Connector, output, self._plugins, OUTPUT)
            own = [key for key in self._given if key.startswith(OUTPUT) and key not in self._read]
            found |= {key: inner.found(key.removeprefix(OUTPUT)) for key in own}
        return [KeyWarning(key, f"{key}: {text}") for key, text in found.items() if text is not None]

    @property
    def _is_stream(self) -> bool:
        return issubclass(self._connector, AnyStream)

    def found(self, key: str) -> str | None:
        """Return what is wrong with a key, if anything is."""
        if key in self._read or key.startswith((*_OVERRIDES, *self._connector.client_prefixes, OUTPUT)):
            return None
        for prefix, (list_key, kind, implicit) in _ALIASED.items():
            if key.startswith(prefix):
                return self._of_alias(key, list_key, kind, implicit)
        for converter, (kind, _) in CONVERTERS.items():
            if key.startswith(f"{converter}."):
                return self._of_converter(key, converter, kind)
        return self._of_group(key) if key.startswith(PREFIX) else self._of_connector(key)

    def _of_alias(self, key: str, list_key: str, kind: PluginKind, implicit: Iterable[str]) -> str | None:
        if has_references({list_key: self._given.get(list_key)}):
            return None  # the aliases are not known here
        known = names_in(self._given.get(list_key))
        alias = next((one for one in known if key.startswith(f"{list_key}.{one}.")), None)
        if alias is None:
            unknown = key.removeprefix(f"{list_key}.").partition(".")[0]
            meant = _meant(_near(unknown, known, shortest=2))
            return f"there is no alias {unknown} in '{self._outer}{list_key}'{meant}"
        prefix = f"{list_key}.{alias}."
        plugin = self._plugin(kind, prefix, self._given.get(f"{prefix}type"))
        if plugin is None:
            return None
        own, read = key.removeprefix(prefix), {"type", PLUGIN_VERSION, *implicit, *plugin.settings()}
        if own in read:
            return None
        near = _near(own, read, shortest=4)
        if near is None and not plugin.__module__.startswith(_BUILT_IN):
            return None
        name = self._plugins.name_of(kind, plugin).rpartition(".")[2]
        return f"{name} does not read it{_meant(near and f'{self._outer}{prefix}{near}')}"

    def _of_converter(self, key: str, converter: str, kind: PluginKind) -> str | None:
        plugin = self._plugin(kind, f"{converter}.", self._converters.get(converter))
        own = key.removeprefix(f"{converter}.")
        if plugin is None or own in (PLUGIN_VERSION, *plugin.settings()):
            return None
        near = _near(own, plugin.settings())
        return near and f"{plugin.__name__} does not read it{_meant(f'{self._outer}{converter}.{near}')}"

    def _of_group(self, key: str) -> str | None:
        if (
            key == _GROUPS
            or has_references({_GROUPS: self._given.get(_GROUPS)})
            or (issubclass(self._connector, SinkConnector) and not self._is_stream)
        ):
            return None
        known = [DEFAULT_GROUP, *names_in(self._given.get(_GROUPS))]
        group = next((one for one in known if key.startswith(f"{PREFIX}{one}.")), None)
        own = key.removeprefix(PREFIX)
        if group is None:
            unknown = own.partition(".")[0]
            return f"there is no group {unknown} in '{_GROUPS}'{_meant(_near(unknown, known, shortest=2))}"
        own = own.removeprefix(f"{group}.")
        near = None if own in GROUP_KEYS else _near(own, GROUP_KEYS)
        return near and f"it is not a setting of a group{_meant(f'{PREFIX}{group}.{near}')}"

    def _of_connector(self, key: str) -> str | None:
        if key in self._renamed:
            return f"nothing reads it since Debezium 2: rename it to {self._renamed[key]}"
        if self._is_java and any(key.startswith(f"{one}.") for one in self._connector.settings()):
            return None  # such as what Iceberg's sink hands to its catalog
        near = _near(key, self._read) or self._near_family(key)
        if near is None and self._connector.__module__.startswith(_BUILT_IN):
            client = next((one for one in _CLIENTS if key.startswith(one)), None)
            near = client and f"{client}override.{key.removeprefix(client)}"
        return near and f"nothing reads it{_meant(self._outer + near)}"

    def _near_family(self, key: str) -> str | None:
        """Return the key with another beginning, if its own is similar to one of those with which many keys begin."""
        for family in (*_FAMILIES, *self._connector.client_prefixes):
            parts = key.split(".")
            count = family.count(".")
            head, rest = ".".join(parts[:count]) + ".", ".".join(parts[count:])
            if rest and head != family and _near(head, [family]):
                return family + rest
        return None

    def _plugin(self, kind: PluginKind, prefix: str, name: str | None) -> type[Config] | None:
        """Return the class that reads the keys with the prefix; None if it is not installed."""
        try:
            found: type[Any] = self._plugins.find(kind, (name or "").strip(), self._given.get(prefix + PLUGIN_VERSION))
        except ConfigError:
            return None
        return found


def _near(key: str, known: Iterable[str], shortest: int = SHORTEST) -> str | None:
    """Return the known key that an unknown one is similar to; those that differ in a number only are different."""
    candidates = [one for one in known if _without_digits(one) != _without_digits(key)]
    plain = next((one for one in candidates if _plain(one) == _plain(key)), None)
    if plain is not None or len(key) < shortest:
        return plain
    candidates = [one for one in candidates if len(one) >= shortest]
    return next(iter(difflib.get_close_matches(key, candidates, n=1, cutoff=SIMILAR)), None)


def _plain(key: str) -> str:
    return re.sub(r"[._\s-]", "", key).lower()


def _without_digits(key: str) -> str:
    return re.sub(r"\d+", "0", key)


def _meant(near: str | None) -> str:
    return f"; did you mean {near}?" if near else ""
