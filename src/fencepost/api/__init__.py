"""What the author of a connector, transform, predicate or converter imports.

A connector plans work and its tasks move data: `SourceConnector` with `SourceTask`, `SinkConnector` with `SinkTask`,
`StreamConnector` with `StreamTask`. A `DataFrameConnector` plans bounded `Split`s that Spark reads. A `DataFrameSink`
writes the `Epoch`s that Spark reads from topics. Settings are fields (`fencepost.config.setting`).
Errors are grouped by what the runtime does about them: retry, skip the record, stop quietly, refuse the config, fail.
"""

from fencepost.api.config_provider import ConfigData, ConfigProvider
from fencepost.api.connector import Connector, ConnectorContext
from fencepost.api.converter import Converter, HeaderConverter
from fencepost.api.dataframe import CsvLines, DataFrameConnector, Split
from fencepost.api.dataframe_sink import DataFrameSink
from fencepost.api.dataframe_stream import DataFrameStream
from fencepost.api.epoch import Epoch, EpochConnector, OffsetRange
from fencepost.api.errors import (
    ConnectError,
    FatalError,
    FencedError,
    RecordError,
    RetriableError,
    UnavailableError,
)
from fencepost.api.offsets_in_group import OffsetsInGroup
from fencepost.api.replication_policy import ReplicationPolicy
from fencepost.api.sink import ErrantRecordReporter, FencingToken, SinkConnector, SinkTask, SinkTaskContext
from fencepost.api.source import (
    ExactlyOnceSupport,
    Form,
    RecordMetadata,
    SourceConnector,
    SourceTask,
    SourceTaskContext,
    TransactionContext,
)
from fencepost.api.stream import StreamConnector, StreamTask, StreamTaskContext
from fencepost.api.transform import Predicate, Record, Transform
from fencepost.config import (
    HIGH,
    LOW,
    MEDIUM,
    Config,
    ConfigError,
    Secret,
    SettingValue,
    Type,
    at_least,
    between,
    matches_regex,
    non_empty,
    one_of,
    setting,
    topic_name,
)
from fencepost.record import (
    Batch,
    BinaryColumn,
    ConnectRecord,
    Header,
    HeaderColumn,
    PositionColumn,
    RecordColumns,
    Repeated,
    Schema,
    SchemaType,
    SinkBatch,
    SinkRecord,
    SourceRecord,
    StructColumn,
    TopicPartition,
    TypedColumn,
    Utf8Column,
    partition_key,
)

__all__ = [
    "HIGH",
    "LOW",
    "MEDIUM",
    "Batch",
    "BinaryColumn",
    "Config",
    "ConfigData",
    "ConfigError",
    "ConfigProvider",
    "ConnectError",
    "ConnectRecord",
    "Connector",
    "ConnectorContext",
    "Converter",
    "CsvLines",
    "DataFrameConnector",
    "DataFrameSink",
    "DataFrameStream",
    "Epoch",
    "EpochConnector",
    "ErrantRecordReporter",
    "ExactlyOnceSupport",
    "FatalError",
    "FencedError",
    "FencingToken",
    "Form",
    "Header",
    "HeaderColumn",
    "HeaderConverter",
    "OffsetRange",
    "OffsetsInGroup",
    "PositionColumn",
    "Predicate",
    "Record",
    "RecordColumns",
    "RecordError",
    "RecordMetadata",
    "Repeated",
    "ReplicationPolicy",
    "RetriableError",
    "Schema",
    "SchemaType",
    "Secret",
    "SettingValue",
    "SinkBatch",
    "SinkConnector",
    "SinkRecord",
    "SinkTask",
    "SinkTaskContext",
    "SourceConnector",
    "SourceRecord",
    "SourceTask",
    "SourceTaskContext",
    "Split",
    "StreamConnector",
    "StreamTask",
    "StreamTaskContext",
    "StructColumn",
    "TopicPartition",
    "TransactionContext",
    "Transform",
    "Type",
    "TypedColumn",
    "UnavailableError",
    "Utf8Column",
    "at_least",
    "between",
    "matches_regex",
    "non_empty",
    "one_of",
    "partition_key",
    "setting",
    "topic_name",
]
