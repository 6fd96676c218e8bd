"""The built-in plug-ins, by name; listing them imports none of their modules."""

from fencepost.plugin.kind import PluginKind

_STORAGE = "org.apache.kafka.connect.storage."
_CONVERTERS = "org.apache.kafka.connect.converters."
_TRANSFORMS = "org.apache.kafka.connect.transforms."
_DEBEZIUM = "io.debezium.transforms."
_PREDICATES = _TRANSFORMS + "predicates."
_MIRROR = "org.apache.kafka.connect.mirror."
_PROVIDERS = "org.apache.kafka.common.config.provider."

_BOTH_KINDS_OF_CONVERTER = {
    "org.apache.kafka.connect.json.JsonConverter": "fencepost.converter.json:JsonConverter",
    _STORAGE + "StringConverter": "fencepost.converter.string:StringConverter",
    _CONVERTERS + "ByteArrayConverter": "fencepost.converter.byte_array:ByteArrayConverter",
    _CONVERTERS + "BooleanConverter": "fencepost.converter.number:BooleanConverter",
    _CONVERTERS + "ShortConverter": "fencepost.converter.number:ShortConverter",
    _CONVERTERS + "IntegerConverter": "fencepost.converter.number:IntegerConverter",
    _CONVERTERS + "LongConverter": "fencepost.converter.number:LongConverter",
    _CONVERTERS + "FloatConverter": "fencepost.converter.number:FloatConverter",
    _CONVERTERS + "DoubleConverter": "fencepost.converter.number:DoubleConverter",
}

_REGISTRY_CONVERTERS = {
    "io.confluent.connect.avro.AvroConverter": "fencepost.converter.registry.avro.converter:AvroConverter",
    "io.confluent.connect.json.JsonSchemaConverter": (
        "fencepost.converter.registry.json_schema.converter:JsonSchemaConverter"
    ),
    "io.confluent.connect.protobuf.ProtobufConverter": (
        "fencepost.converter.registry.protobuf.converter:ProtobufConverter"
    ),
}

BUILT_IN: dict[PluginKind, dict[str, str]] = {
    PluginKind.CONNECTOR: {
        "fencepost.connector.datagen.DatagenConnector": "fencepost.connector.generator.datagen:DatagenConnector",
        "fencepost.connector.files_sink.FilesSink": "fencepost.connector.files.sink:FilesSink",
        "fencepost.connector.spool.SpoolDirectorySource": "fencepost.connector.spool.source:SpoolDirectorySource",
        "fencepost.connector.topic_sql.TopicSql": "fencepost.connector.topic.sql:TopicSql",
        "fencepost.connector.topic_transform.TopicTransformConnector": (
            "fencepost.connector.topic.transform:TopicTransformConnector"
        ),
        "org.apache.kafka.connect.file.FileStreamSinkConnector": (
            "fencepost.connector.file_stream.sink:FileStreamSinkConnector"
        ),
        "org.apache.kafka.connect.file.FileStreamSourceConnector": (
            "fencepost.connector.file_stream.source:FileStreamSourceConnector"
        ),
        _MIRROR + "MirrorCheckpointConnector": "fencepost.mirror.checkpoint.connector:MirrorCheckpointConnector",
        _MIRROR + "MirrorHeartbeatConnector": "fencepost.mirror.heartbeat:MirrorHeartbeatConnector",
        _MIRROR + "MirrorSinkConnector": "fencepost.mirror.sink.connector:MirrorSinkConnector",
        _MIRROR + "MirrorSourceConnector": "fencepost.mirror.source.connector:MirrorSourceConnector",
        "org.apache.kafka.connect.tools.VerifiableSinkConnector": (
            "fencepost.connector.generator.verifiable_sink:VerifiableSinkConnector"
        ),
        "org.apache.kafka.connect.tools.VerifiableSourceConnector": (
            "fencepost.connector.generator.verifiable_source:VerifiableSourceConnector"
        ),
    },
    PluginKind.TRANSFORM: {
        _TRANSFORMS + "Cast$Key": "fencepost.transform.cast:CastKey",
        _TRANSFORMS + "Cast$Value": "fencepost.transform.cast:CastValue",
        _TRANSFORMS + "DropHeaders": "fencepost.transform.header:DropHeaders",
        _TRANSFORMS + "ExtractField$Key": "fencepost.transform.extract_field:ExtractFieldKey",
        _TRANSFORMS + "ExtractField$Value": "fencepost.transform.extract_field:ExtractFieldValue",
        _TRANSFORMS + "Filter": "fencepost.transform.filter:Filter",
        _TRANSFORMS + "Flatten$Key": "fencepost.transform.flatten:FlattenKey",
        _TRANSFORMS + "Flatten$Value": "fencepost.transform.flatten:FlattenValue",
        _TRANSFORMS + "HeaderFrom$Key": "fencepost.transform.header:HeaderFromKey",
        _TRANSFORMS + "HeaderFrom$Value": "fencepost.transform.header:HeaderFromValue",
        _TRANSFORMS + "HoistField$Key": "fencepost.transform.hoist_field:HoistFieldKey",
        _TRANSFORMS + "HoistField$Value": "fencepost.transform.hoist_field:HoistFieldValue",
        _TRANSFORMS + "InsertField$Key": "fencepost.transform.insert_field:InsertFieldKey",
        _TRANSFORMS + "InsertField$Value": "fencepost.transform.insert_field:InsertFieldValue",
        _TRANSFORMS + "InsertHeader": "fencepost.transform.header:InsertHeader",
        _TRANSFORMS + "MaskField$Key": "fencepost.transform.mask_field:MaskFieldKey",
        _TRANSFORMS + "MaskField$Value": "fencepost.transform.mask_field:MaskFieldValue",
        _TRANSFORMS + "RegexRouter": "fencepost.transform.regex_router:RegexRouter",
        _TRANSFORMS + "ReplaceField$Key": "fencepost.transform.replace_field:ReplaceFieldKey",
        _TRANSFORMS + "ReplaceField$Value": "fencepost.transform.replace_field:ReplaceFieldValue",
        _TRANSFORMS + "SetSchemaMetadata$Key": "fencepost.transform.set_schema_metadata:SetSchemaMetadataKey",
        _TRANSFORMS + "SetSchemaMetadata$Value": "fencepost.transform.set_schema_metadata:SetSchemaMetadataValue",
        _TRANSFORMS + "TimestampConverter$Key": "fencepost.transform.timestamp_converter:TimestampConverterKey",
        _TRANSFORMS + "TimestampConverter$Value": "fencepost.transform.timestamp_converter:TimestampConverterValue",
        _TRANSFORMS + "TimestampRouter": "fencepost.transform.timestamp_router:TimestampRouter",
        _TRANSFORMS + "ValueToKey": "fencepost.transform.value_to_key:ValueToKey",
        _DEBEZIUM + "ExtractNewRecordState": (
            "fencepost.transform.debezium.extract_new_record_state:ExtractNewRecordState"
        ),
        _DEBEZIUM + "outbox.EventRouter": "fencepost.transform.debezium.event_router:EventRouter",
    },
    PluginKind.PREDICATE: {
        _PREDICATES + "HasHeaderKey": "fencepost.transform.predicate:HasHeaderKey",
        _PREDICATES + "RecordIsTombstone": "fencepost.transform.predicate:RecordIsTombstone",
        _PREDICATES + "TopicNameMatches": "fencepost.transform.predicate:TopicNameMatches",
    },
    PluginKind.CONVERTER: {**_BOTH_KINDS_OF_CONVERTER, **_REGISTRY_CONVERTERS},
    PluginKind.HEADER_CONVERTER: {
        _STORAGE + "SimpleHeaderConverter": "fencepost.converter.simple_header:SimpleHeaderConverter",
        **_BOTH_KINDS_OF_CONVERTER,
    },
    PluginKind.REPLICATION_POLICY: {
        _MIRROR + "DefaultReplicationPolicy": "fencepost.mirror.setting.policy:DefaultReplicationPolicy",
        _MIRROR + "IdentityReplicationPolicy": "fencepost.mirror.setting.policy:IdentityReplicationPolicy",
    },
    PluginKind.CONFIG_PROVIDER: {
        _PROVIDERS + "DirectoryConfigProvider": "fencepost.provider.directory:DirectoryConfigProvider",
        _PROVIDERS + "EnvVarConfigProvider": "fencepost.provider.environment:EnvVarConfigProvider",
        _PROVIDERS + "FileConfigProvider": "fencepost.provider.file:FileConfigProvider",
        "fencepost.provider.AwsConfigProvider": "fencepost.provider.aws:AwsConfigProvider",
        "fencepost.provider.AzureConfigProvider": "fencepost.provider.azure:AzureConfigProvider",
        "fencepost.provider.GcpConfigProvider": "fencepost.provider.gcp:GcpConfigProvider",
        "fencepost.provider.VaultConfigProvider": "fencepost.provider.vault:VaultConfigProvider",
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
