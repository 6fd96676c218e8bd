"""Values and schemas: what travels from a task to Kafka, and from Kafka to a task.

Core types: `Schema`, `SourceRecord` and `SinkRecord`, `Batch` and `SinkBatch` (columns), `Utf8Column`,
`ArrowColumn`, `BinaryColumn`, `StructColumn`; `RecordColumns`, which transforms see.
"""

from fencepost.record.arrow_column import ArrowColumn, MomentColumn
from fencepost.record.batch import Batch, RecordColumns, TypedColumn
from fencepost.record.binary_column import BinaryColumn
from fencepost.record.column import (
    BytesColumn,
    Chained,
    HeaderBytes,
    HeaderColumn,
    PolledAt,
    PositionColumn,
    Repeated,
    Runs,
    StructColumn,
    Utf8Column,
    distinct,
    is_missing,
    joined_column,
    joined_member,
    picked,
    runs_of,
)
from fencepost.record.record import (
    AppendTime,
    ConnectRecord,
    Header,
    PartitionKey,
    ReadHeader,
    SinkRecord,
    SourceRecord,
    TopicPartition,
    is_same,
    partition_key,
    place_names,
)
from fencepost.record.schema import Field, Schema, SchemaError
from fencepost.record.sink_batch import SinkBatch
from fencepost.record.type_table import SchemaType

__all__ = [
    "AppendTime",
    "ArrowColumn",
    "Batch",
    "BinaryColumn",
    "BytesColumn",
    "Chained",
    "ConnectRecord",
    "Field",
    "Header",
    "HeaderBytes",
    "HeaderColumn",
    "MomentColumn",
    "ReadHeader",
    "RecordColumns",
    "PartitionKey",
    "PolledAt",
    "PositionColumn",
    "Repeated",
    "Runs",
    "Schema",
    "SchemaError",
    "SchemaType",
    "SinkBatch",
    "SinkRecord",
    "SourceRecord",
    "StructColumn",
    "TopicPartition",
    "TypedColumn",
    "Utf8Column",
    "distinct",
    "is_missing",
    "is_same",
    "joined_column",
    "joined_member",
    "partition_key",
    "picked",
    "place_names",
    "runs_of",
]
