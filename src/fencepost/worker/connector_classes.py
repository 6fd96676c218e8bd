"""The types of a snapshot's connectors, if their classes are installed here."""

import contextlib
from collections.abc import Mapping
from typing import Any, TypeAlias

from fencepost.api import Connector, DataFrameStream, SinkConnector, SourceConnector, StreamConnector
from fencepost.builtin.connector.sql_stream import SqlStream
from fencepost.cluster.info import ConnectorType
from fencepost.config import ConfigError
from fencepost.config.connector import ConnectorConfig
from fencepost.config.reference import RawConfig
from fencepost.hook.mirror import MirrorTask
from fencepost.plugin import PluginKind, VersionUnknownError, registry
from fencepost.storage.snapshot import ClusterSnapshot

AnyStream: TypeAlias = StreamConnector | DataFrameStream | SqlStream
"""The classes of connectors that read topics and write to topics."""
_CLASS, _VERSION = (ConnectorConfig.key_of(name) for name in ("connector_class", "connector_version"))


def class_of(config: RawConfig) -> type[Any]:
    """Return the class that a config names, in the version that it asks for. Raises ConfigError if it is not found."""
    return registry().find(PluginKind.CONNECTOR, config.get(_CLASS) or "", config.get(_VERSION))


def typical_class_of(config: RawConfig) -> type[Any]:
    """Return the class that a config names, or another version of it, which has the same type. Raises ConfigError."""
    try:
        return class_of(config)
    except VersionUnknownError as error:
        return error.some


def version_of(config: RawConfig) -> str | None:
    """Return the version of the class that runs with this config; None if it is not installed here."""
    try:
        return registry().version_of(PluginKind.CONNECTOR, class_of(config))
    except ConfigError:
        return None


def type_of(snapshot: ClusterSnapshot, name: str) -> ConnectorType:
    """Return the type of a connector; unknown if its class is not installed here."""
    return type_of_config(snapshot.connectors.get(name, {}))


def type_of_config(config: RawConfig) -> ConnectorType:
    """Return the type of a connector with this config."""
    try:
        found = typical_class_of(config)
    except ConfigError:
        return ConnectorType.UNKNOWN
    if issubclass(found, SinkConnector):
        return ConnectorType.SINK
    return ConnectorType.SOURCE if issubclass(found, SourceConnector) else ConnectorType.UNKNOWN


def is_stream(snapshot: ClusterSnapshot, name: str) -> bool:
    """Say whether a connector, if its class is installed, writes what it reads in its own transactions."""
    return is_stream_config(snapshot.connectors.get(name, {}))


def is_stream_config(config: RawConfig) -> bool:
    """Say the same of a connector with this config."""
    return kind_of_config(config) == "stream"


def is_query_config(config: RawConfig) -> bool:
    """Say whether a connector with this config, if its class is installed, is a streaming query of Spark's."""
    try:
        return issubclass(typical_class_of(config), SqlStream)
    except ConfigError:
        return False


def kind_of_config(config: RawConfig) -> str | None:
    """Return the word for what a connector with this config is for; None if its class is not installed here."""
    try:
        found = typical_class_of(config)
    except ConfigError:
        return None
    if issubclass(found, AnyStream):
        return "stream"
    if is_mirror(found) or found.__module__.startswith("fencepost.builtin.mirror."):
        return "mirror"
    if issubclass(found, SinkConnector):
        return "sink"
    return "source" if issubclass(found, SourceConnector) else None


def is_mirror(connector: type[Any]) -> bool:
    """Say whether the tasks of a class are those of a mirror."""
    task = getattr(connector, "task", None)
    return isinstance(task, type) and issubclass(task, MirrorTask)


def refusal_of_change(before: RawConfig, after: RawConfig) -> str | None:
    """Return why a connector's class may not change like this; None if it may, or a class is not installed here."""
    try:
        former, new = class_of(before), class_of(after)
    except ConfigError:
        return None
    return new.refusal_to_follow(former) if issubclass(new, Connector) else None


def is_dataframe(snapshot: ClusterSnapshot, name: str) -> bool:
    """Say whether a connector reads or writes DataFrames. Raises ConfigError if its class is not installed here."""
    return is_dataframe_config(snapshot.connectors.get(name, {}))


def is_dataframe_config(config: RawConfig) -> bool:
    """Say the same of a connector with this config."""
    return bool(getattr(typical_class_of(config), "is_dataframe", False))


def has_dataframes(snapshot: ClusterSnapshot) -> bool:
    """Say whether any connector whose class is installed here reads or writes DataFrames."""
    for name in snapshot.connectors:
        with contextlib.suppress(ConfigError):
            if is_dataframe(snapshot, name):
                return True
    return False


def converters_of(config: RawConfig) -> Mapping[str, str]:
    """Return a class's own converters, which replace the worker's; none if the class is not found."""
    try:
        return dict(getattr(typical_class_of(config), "converters", {}))
    except ConfigError:
        return {}


def defines_transactions(config: RawConfig) -> bool:
    """Say whether a source's class defines its transactions; False if the class is not found."""
    try:
        return bool(getattr(typical_class_of(config), "defines_transactions", False))
    except ConfigError:
        return False


def is_source(snapshot: ClusterSnapshot, connector: str) -> bool:
    """Say whether a connector is a source whose class is installed here."""
    return type_of(snapshot, connector) is ConnectorType.SOURCE
