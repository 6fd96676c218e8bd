"""Values and schemas: what travels from a task to Kafka.

Core types: `Schema`, `SourceRecord`, `Batch` (columns), `Utf8Column`, `PositionColumn`.
"""

from fencepost.record.batch import Batch
from fencepost.record.column import PositionColumn, Repeated, Utf8Column
from fencepost.record.partition_key import PartitionKey, is_same, partition_key
from fencepost.record.record import Header, SourceRecord
from fencepost.record.schema import Field, Schema, SchemaError, SchemaType

__all__ = [
    "Batch",
    "Field",
    "Header",
    "PartitionKey",
    "PositionColumn",
    "Repeated",
    "Schema",
    "SchemaError",
    "SchemaType",
    "SourceRecord",
    "Utf8Column",
    "is_same",
    "partition_key",
]
