"""What the author of a connector, transform, predicate or converter imports.

A task connector is a `SourceConnector` (plans) with a `SourceTask` (moves data); a `DataFrameConnector` plans
bounded `Split`s that Spark reads. Settings are fields (`fencepost.config.setting`). Errors are grouped by what the
runtime does about them: retry, skip the record, stop quietly, refuse the config, fail.
"""

from fencepost.api.converter import Converter, HeaderConverter
from fencepost.api.dataframe import DataFrameConnector, Split
from fencepost.api.errors import ConnectError, FatalError, FencedError, RecordError, RetriableError
from fencepost.api.source import (
    ConnectorContext,
    ExactlyOnceSupport,
    RecordMetadata,
    SourceConnector,
    SourceTask,
    SourceTaskContext,
    TransactionContext,
)
from fencepost.api.transform import Predicate, Transform
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
    Header,
    PositionColumn,
    Repeated,
    Schema,
    SchemaType,
    SourceRecord,
    Utf8Column,
    partition_key,
)

__all__ = [
    "HIGH",
    "LOW",
    "MEDIUM",
    "Batch",
    "Config",
    "ConfigError",
    "ConnectError",
    "ConnectorContext",
    "Converter",
    "DataFrameConnector",
    "ExactlyOnceSupport",
    "FatalError",
    "FencedError",
    "Header",
    "HeaderConverter",
    "PositionColumn",
    "Predicate",
    "RecordError",
    "RecordMetadata",
    "Repeated",
    "RetriableError",
    "Schema",
    "SchemaType",
    "Secret",
    "SettingValue",
    "SourceConnector",
    "SourceRecord",
    "SourceTask",
    "SourceTaskContext",
    "Split",
    "TransactionContext",
    "Transform",
    "Type",
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
