"""Records of one partition as Arrow columns, with the names and types of Spark's own Kafka source."""

from collections.abc import Callable, Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.kafka.codec.decode_columns import DecodedColumns
from fencepost.kafka.value.fetched import HEADER, Fetched, header_lists
from fencepost.record import AppendTime, BinaryColumn, TopicPartition

ROWS = 10_000
"""The number of records in a batch."""
BYTES = 8 << 20
"""About the size of the values in a batch, which may exceed it by that of one record."""
_MICROS, _MILLIS = (pa.timestamp(unit, tz="UTC") for unit in ("us", "ms"))
_MOST_MILLIS = ((1 << 63) - 1) // 1_000
_TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": _MICROS,
    "timestampType": pa.int32(),
    "headers": pa.list_(HEADER),
}
WITHOUT_HEADERS = tuple(_TYPES)[:-1]
ALL = tuple(_TYPES)


def schema(names: Sequence[str] = WITHOUT_HEADERS, texts: Collection[str] = ()) -> pa.Schema:
    """Return the schema of these columns. `headers` is null for a record without headers.

    `texts`: which of `key` and `value` are text. Their bytes are not checked.
    """
    return pa.schema([(name, pa.string() if name in texts else _TYPES[name]) for name in names])


def pieces(whole: pa.RecordBatch, size_bytes: int) -> list[pa.RecordBatch]:
    """Split a batch of `size_bytes` into several if it is very large. A batch without rows gives an empty list."""
    step = max(1, min(2 * ROWS, len(whole) * 2 * BYTES // max(size_bytes, 1)))
    return [whole.slice(start, step) for start in range(0, len(whole), step)]


def decoded_records(place: TopicPartition, columns: pa.Schema, found: DecodedColumns) -> pa.RecordBatch:
    """Return records of a partition that were decoded together, with the columns of a `schema`."""
    return _records(place, columns, len(found), lambda field: _decoded(found, field))


def fetched_records(place: TopicPartition, columns: pa.Schema, found: Fetched) -> pa.RecordBatch:
    """Return fetched records of a partition, with the columns of a `schema`."""
    return _records(place, columns, len(found), lambda field: _fetched(found, field))


def _records(
    place: TopicPartition, columns: pa.Schema, count: int, column: Callable[[pa.Field], pa.Array]
) -> pa.RecordBatch:
    constant = {"topic": place.topic, "partition": place.partition}
    made = [
        pa.repeat(pa.scalar(constant[field.name], field.type), count)
        if field.name in constant
        else _typed(column(field), field)
        for field in columns
    ]
    return pa.RecordBatch.from_arrays(made, schema=columns)


def _decoded(found: DecodedColumns, field: pa.Field) -> pa.Array:
    match field.name:
        case "timestamp":
            return found.timestamps.view(_MILLIS)
        case "timestampType":
            return found.is_append_time.cast(field.type)
        case "headers":
            return pa.nulls(len(found), field.type) if found.headers is None else header_lists(found.headers)
        case "offset":
            return found.offsets
    return found.keys if field.name == "key" else found.values


def _fetched(found: Fetched, field: pa.Field) -> pa.Array:
    times = found.timestamps
    match field.name:
        case "timestamp":
            return pa.array([-1 if at is None else int(at) for at in times], pa.int64()).view(_MILLIS)
        case "timestampType":  # the producer's (0), the broker's (1), or none (-1)
            return pa.array([-1 if at is None else int(isinstance(at, AppendTime)) for at in times], field.type)
        case "headers":
            return header_lists(found.headers or [None] * len(found))
        case "offset":
            return pa.array(found.offsets, field.type)
    column = found.keys if field.name == "key" else found.values
    return column.array if isinstance(column, BinaryColumn) else pa.array(list(column), pa.binary())


def _typed(column: pa.Array, field: pa.Field) -> pa.Array:
    """Convert a column to the type in the schema. The bytes of texts are not checked.

    A time that microseconds cannot hold (a year beyond 294,000) becomes null, so that its record can still be read.
    """
    if pa.types.is_string(field.type):
        return column.view(field.type)
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid:
        return _fitting(column).cast(field.type)


def _fitting(times: pa.Array) -> pa.Array:
    numbers = times.view(pa.int64())
    fits = pc.and_(pc.greater_equal(numbers, -_MOST_MILLIS), pc.less_equal(numbers, _MOST_MILLIS))
    return pc.if_else(fits, times, pa.scalar(None, times.type))
