"""The built-in plug-ins, by name; listing them imports none of their modules."""

from fencepost.plugin.kind import PluginKind

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
