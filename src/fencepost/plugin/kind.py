"""The kinds of plug-ins, their names in the REST API, and the built-in ones of each kind.

Those are listed by name: listing them imports none of their modules.
"""

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

_STORAGE = "org.apache.kafka.connect.storage."
_CONVERTERS = "org.apache.kafka.connect.converters."
_TRANSFORMS = "org.apache.kafka.connect.transforms."
_DEBEZIUM = "io.debezium.transforms."
_PREDICATES = _TRANSFORMS + "predicates."
_MIRROR = "org.apache.kafka.connect.mirror."
_HERE = "fencepost.builtin."
_PROVIDERS = "org.apache.kafka.common.config.provider."

_BOTH_KINDS_OF_CONVERTER = {
    "org.apache.kafka.connect.json.JsonConverter": _HERE + "converter.json:JsonConverter",
    _STORAGE + "StringConverter": _HERE + "converter.plain:StringConverter",
    _CONVERTERS + "ByteArrayConverter": _HERE + "converter.plain:ByteArrayConverter",
    _CONVERTERS + "BooleanConverter": _HERE + "converter.plain:BooleanConverter",
    _CONVERTERS + "ShortConverter": _HERE + "converter.plain:ShortConverter",
    _CONVERTERS + "IntegerConverter": _HERE + "converter.plain:IntegerConverter",
    _CONVERTERS + "LongConverter": _HERE + "converter.plain:LongConverter",
    _CONVERTERS + "FloatConverter": _HERE + "converter.plain:FloatConverter",
    _CONVERTERS + "DoubleConverter": _HERE + "converter.plain:DoubleConverter",
}

_REGISTRY_CONVERTERS = {
    "io.confluent.connect.avro.AvroConverter": _HERE + "converter.registry.avro.converter:AvroConverter",
    "io.confluent.connect.json.JsonSchemaConverter": (
        _HERE + "converter.registry.json_schema.converter:JsonSchemaConverter"
    ),
    "io.confluent.connect.protobuf.ProtobufConverter": (
        _HERE + "converter.registry.protobuf.converter:ProtobufConverter"
    ),
}

BUILT_IN: dict[PluginKind, dict[str, str]] = {
    PluginKind.CONNECTOR: {
        "fencepost.connector.datagen.DatagenConnector": _HERE + "connector.generator:DatagenConnector",
        "fencepost.connector.files_sink.FilesSink": _HERE + "connector.files.sink:FilesSink",
        "fencepost.connector.postgres_sink.PostgresSink": _HERE + "postgres.sink.task:PostgresSink",
        "fencepost.connector.jdbc.JdbcSource": _HERE + "connector.jdbc.source:JdbcSource",
        "fencepost.connector.postgres_source.PostgresSource": _HERE + "postgres.source.connector:PostgresSource",
        "fencepost.connector.spool.SpoolDirectorySource": _HERE + "connector.spool.source:SpoolDirectorySource",
        "fencepost.connector.sql_stream.SqlStream": _HERE + "connector.sql_stream:SqlStream",
        "fencepost.connector.topic_sql.TopicSql": _HERE + "connector.topic:TopicSql",
        "fencepost.connector.topic_transform.TopicTransformConnector": (
            _HERE + "connector.topic:TopicTransformConnector"
        ),
        "org.apache.kafka.connect.file.FileStreamSinkConnector": (
            _HERE + "connector.file_stream.sink:FileStreamSinkConnector"
        ),
        "org.apache.kafka.connect.file.FileStreamSourceConnector": (
            _HERE + "connector.file_stream.source:FileStreamSourceConnector"
        ),
        _MIRROR + "MirrorCheckpointConnector": _HERE + "mirror.checkpoint.connector:MirrorCheckpointConnector",
        _MIRROR + "MirrorHeartbeatConnector": _HERE + "mirror.heartbeat:MirrorHeartbeatConnector",
        _MIRROR + "MirrorSinkConnector": _HERE + "mirror.sink:MirrorSinkConnector",
        _MIRROR + "MirrorSourceConnector": _HERE + "mirror.source.connector:MirrorSourceConnector",
        "org.apache.kafka.connect.tools.VerifiableSinkConnector": (
            _HERE + "connector.generator:VerifiableSinkConnector"
        ),
        "org.apache.kafka.connect.tools.VerifiableSourceConnector": (
            _HERE + "connector.generator:VerifiableSourceConnector"
        ),
    },
    PluginKind.TRANSFORM: {
        _TRANSFORMS + "Cast$Key": _HERE + "transform.cast:CastKey",
        _TRANSFORMS + "Cast$Value": _HERE + "transform.cast:CastValue",
        _TRANSFORMS + "DropHeaders": _HERE + "transform.header:DropHeaders",
        _TRANSFORMS + "ExtractField$Key": _HERE + "transform.extract_field:ExtractFieldKey",
        _TRANSFORMS + "ExtractField$Value": _HERE + "transform.extract_field:ExtractFieldValue",
        _TRANSFORMS + "Filter": _HERE + "transform.predicate:Filter",
        _TRANSFORMS + "Flatten$Key": _HERE + "transform.flatten:FlattenKey",
        _TRANSFORMS + "Flatten$Value": _HERE + "transform.flatten:FlattenValue",
        _TRANSFORMS + "HeaderFrom$Key": _HERE + "transform.header:HeaderFromKey",
        _TRANSFORMS + "HeaderFrom$Value": _HERE + "transform.header:HeaderFromValue",
        _TRANSFORMS + "HoistField$Key": _HERE + "transform.extract_field:HoistFieldKey",
        _TRANSFORMS + "HoistField$Value": _HERE + "transform.extract_field:HoistFieldValue",
        _TRANSFORMS + "InsertField$Key": _HERE + "transform.insert_field:InsertFieldKey",
        _TRANSFORMS + "InsertField$Value": _HERE + "transform.insert_field:InsertFieldValue",
        _TRANSFORMS + "InsertHeader": _HERE + "transform.header:InsertHeader",
        _TRANSFORMS + "MaskField$Key": _HERE + "transform.mask_field:MaskFieldKey",
        _TRANSFORMS + "MaskField$Value": _HERE + "transform.mask_field:MaskFieldValue",
        _TRANSFORMS + "RegexRouter": _HERE + "transform.router:RegexRouter",
        _TRANSFORMS + "ReplaceField$Key": _HERE + "transform.replace_field:ReplaceFieldKey",
        _TRANSFORMS + "ReplaceField$Value": _HERE + "transform.replace_field:ReplaceFieldValue",
        _TRANSFORMS + "SetSchemaMetadata$Key": _HERE + "transform.set_schema_metadata:SetSchemaMetadataKey",
        _TRANSFORMS + "SetSchemaMetadata$Value": _HERE + "transform.set_schema_metadata:SetSchemaMetadataValue",
        _TRANSFORMS + "TimestampConverter$Key": _HERE + "transform.timestamp_converter:TimestampConverterKey",
        _TRANSFORMS + "TimestampConverter$Value": _HERE + "transform.timestamp_converter:TimestampConverterValue",
        _TRANSFORMS + "TimestampRouter": _HERE + "transform.router:TimestampRouter",
        _TRANSFORMS + "ValueToKey": _HERE + "transform.value_to_key:ValueToKey",
        _DEBEZIUM + "ExtractNewRecordState": (
            _HERE + "transform.debezium.extract_new_record_state:ExtractNewRecordState"
        ),
        _DEBEZIUM + "outbox.EventRouter": _HERE + "transform.debezium.event_router:EventRouter",
    },
    PluginKind.PREDICATE: {
        _PREDICATES + "HasHeaderKey": _HERE + "transform.predicate:HasHeaderKey",
        _PREDICATES + "RecordIsTombstone": _HERE + "transform.predicate:RecordIsTombstone",
        _PREDICATES + "TopicNameMatches": _HERE + "transform.predicate:TopicNameMatches",
    },
    PluginKind.CONVERTER: {**_BOTH_KINDS_OF_CONVERTER, **_REGISTRY_CONVERTERS},
    PluginKind.HEADER_CONVERTER: {
        _STORAGE + "SimpleHeaderConverter": _HERE + "converter.plain:SimpleHeaderConverter",
        **_BOTH_KINDS_OF_CONVERTER,
    },
    PluginKind.REPLICATION_POLICY: {
        _MIRROR + "DefaultReplicationPolicy": _HERE + "mirror.setting.mirror_settings:DefaultReplicationPolicy",
        _MIRROR + "IdentityReplicationPolicy": _HERE + "mirror.setting.mirror_settings:IdentityReplicationPolicy",
    },
    PluginKind.CONFIG_PROVIDER: {
        _PROVIDERS + "DirectoryConfigProvider": _HERE + "provider.local:DirectoryConfigProvider",
        _PROVIDERS + "EnvVarConfigProvider": _HERE + "provider.local:EnvVarConfigProvider",
        _PROVIDERS + "FileConfigProvider": _HERE + "provider.local:FileConfigProvider",
        "fencepost.provider.AwsConfigProvider": _HERE + "provider.cloud:AwsConfigProvider",
        "fencepost.provider.AzureConfigProvider": _HERE + "provider.cloud:AzureConfigProvider",
        "fencepost.provider.GcpConfigProvider": _HERE + "provider.cloud:GcpConfigProvider",
        "fencepost.provider.VaultConfigProvider": _HERE + "provider.vault:VaultConfigProvider",
    },
}

ROUTERS = frozenset({"EventRouter", "ExtractNewRecordState", "RegexRouter", "TimestampRouter"})
"""The built-in transforms that change topics."""

FORMER_NAMES = {
    "fencepost.connector.file_stream.FileStreamSourceConnector": "FileStreamSourceConnector",
    "fencepost.connector.file_stream_sink.FileStreamSinkConnector": "FileStreamSinkConnector",
    "fencepost.connector.verifiable.VerifiableSourceConnector": "VerifiableSourceConnector",
    "fencepost.connector.verifiable_sink.VerifiableSinkConnector": "VerifiableSinkConnector",
    "fencepost.mirror.checkpoint.MirrorCheckpointConnector": "MirrorCheckpointConnector",
    "fencepost.mirror.policy.DefaultReplicationPolicy": "DefaultReplicationPolicy",
    "fencepost.mirror.policy.IdentityReplicationPolicy": "IdentityReplicationPolicy",
    "fencepost.mirror.sink.MirrorSinkConnector": "MirrorSinkConnector",
    "fencepost.mirror.source.MirrorSourceConnector": "MirrorSourceConnector",
}
"""Python names under which classes were found before they moved to another module; configs may still contain them."""

_CONVERTER_KEYS = {
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
    for key, kind in _CONVERTER_KEYS.items():
        if key in config:
            yield ClassKey(kind, key, f"{key}.")
    for key, kind in _LISTS.items():
        for alias in aliases_of(config, key):
            prefix = f"{key}.{alias}."
            yield ClassKey(kind, f"{prefix}type", prefix)


def aliases_of(config: Mapping[str, str | None], key: str) -> list[str]:
    """Return the names in a list of transforms or predicates."""
    return names_in(config.get(key))
