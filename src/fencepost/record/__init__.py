"""Values and schemas: what travels from a task to Kafka, and from Kafka to a task.

Core types: `Schema`, `SourceRecord` and `SinkRecord`, `Batch` and `SinkBatch` (columns), `Utf8Column`,
`BinaryColumn`.
"""

from fencepost.record.batch import Batch
from fencepost.record.binary_column import BinaryColumn
from fencepost.record.column import BytesColumn, Chained, PositionColumn, Repeated, Runs, Utf8Column, distinct
from fencepost.record.header_column import HeaderBytes, HeaderColumn
from fencepost.record.partition_key import PartitionKey, is_same, partition_key
from fencepost.record.record import (
    ConnectRecord,
    Header,
    ReadHeader,
    SinkRecord,
    SourceRecord,
    TopicPartition,
    place_names,
)
from fencepost.record.schema import Field, Schema, SchemaError, SchemaType
from fencepost.record.sink_batch import SinkBatch

__all__ = [
    "Batch",
    "BinaryColumn",
    "BytesColumn",
    "Chained",
    "ConnectRecord",
    "Field",
    "Header",
    "HeaderBytes",
    "HeaderColumn",
    "ReadHeader",
    "PartitionKey",
    "PositionColumn",
    "Repeated",
    "Runs",
    "Schema",
    "SchemaError",
    "SchemaType",
    "SinkBatch",
    "SinkRecord",
    "SourceRecord",
    "TopicPartition",
    "Utf8Column",
    "distinct",
    "is_same",
    "partition_key",
    "place_names",
]
