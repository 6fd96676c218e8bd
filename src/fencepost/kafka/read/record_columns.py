"""Records of one partition as Arrow columns, with the names and types of Spark's own Kafka source."""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, Message

from fencepost.kafka.value.header_lists import HEADER, header_lists
from fencepost.kafka.value.message_headers import ReadAgain, headers_of
from fencepost.record import TopicPartition

ROWS = 10_000
"""The number of records in a batch."""
AT_ONCE = 2_000
"""A good chunk of messages: large enough to share the fixed cost of Arrow's calls, and small enough to stay in the
processor's cache."""
_BYTES = 8 << 20
_MICROS, MILLIS = (pa.timestamp(unit, tz="UTC") for unit in ("us", "ms"))
_MOST_MILLIS = ((1 << 63) - 1) // 1_000
CONSTANT = ("topic", "partition")
"""Columns that have the same value in all records."""
_TIMES, _OFFSET, _HEADERS = ("timestamp", "timestampType"), "offset", "headers"
_STEPS = pa.array(range(ROWS + AT_ONCE), pa.int64())
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


class MessageCollector:
    """Collects messages of one partition until they fill a batch.

    It maps the client's own methods over all messages, one column at a time. One Python-level step per record would
    cost as much as all of these together. Each chunk is converted to Arrow at once, while its bytes are in the
    processor's cache, and is then released. Only the columns of the schema are made.
    """

    def __init__(self, place: TopicPartition, columns: pa.Schema, read_again: ReadAgain) -> None:
        """`columns` are made by `schema`; `read_again` reads headers as bytes."""
        self._place = place
        self._read_again = read_again
        self._schema = columns
        self._made = [name for name in columns.names if name in (*_MADE, _HEADERS)]
        self._has_times = not set(_TIMES).isdisjoint(columns.names)
        self._has_offsets = _OFFSET in columns.names
        self._clear()

    def __len__(self) -> int:
        return self._rows

    @property
    def is_full(self) -> bool:
        return self._rows >= ROWS or self._size_bytes >= _BYTES

    def take(self, messages: Sequence[Any]) -> None:
        """Add at most AT_ONCE messages, none of which may be an event."""
        if not messages:
            return
        if self._has_offsets:
            self._offsets.append(_offsets(messages))
        for name in self._made:
            chunk = self._header_column(messages) if name == _HEADERS else _MADE[name](messages)
            self._chunks[name].append(chunk)
            if name == "value":
                self._size_bytes += chunk.nbytes
        if self._has_times:
            for name, chunk in zip(_TIMES, _time_columns(messages), strict=True):
                self._chunks[name].append(chunk)
        self._rows += len(messages)

    def _header_column(self, messages: Sequence[Any]) -> pa.Array:
        return header_lists(headers_of(messages, self._read_again))

    def batches(self) -> list[pa.RecordBatch]:
        """Return the collected records, in several batches if they are very large, and start over."""
        whole = pa.RecordBatch.from_arrays([self._column(field) for field in self._schema], schema=self._schema)
        size_bytes = self._size_bytes
        self._clear()
        return pieces(whole, size_bytes)

    def _column(self, field: pa.Field) -> pa.Array:
        if field.name in CONSTANT:
            return constant(self._place, field, self._rows)
        if field.name == _OFFSET:
            return _offset_column(self._offsets, self._rows)
        return typed(pa.concat_arrays(self._chunks[field.name]), field)

    def _clear(self) -> None:
        self._chunks: dict[str, list[pa.Array]] = {name: [] for name in (*_MADE, _HEADERS, *_TIMES)}
        self._offsets: list[Sequence[int]] = []
        self._rows = self._size_bytes = 0


def pieces(whole: pa.RecordBatch, size_bytes: int) -> list[pa.RecordBatch]:
    """Split a batch of `size_bytes` into several if it is very large. A batch without rows gives an empty list."""
    step = max(1, min(2 * ROWS, len(whole) * 2 * _BYTES // max(size_bytes, 1)))
    return [whole.slice(start, step) for start in range(0, len(whole), step)]


def constant(place: TopicPartition, field: pa.Field, count: int) -> pa.Array:
    """Return a column with the same value in all records."""
    return pa.repeat(pa.scalar(getattr(place, field.name), field.type), count)


def typed(column: pa.Array, field: pa.Field) -> pa.Array:
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
    """Replace times that do not fit in microseconds with null."""
    numbers = times.view(pa.int64())
    fits = pc.and_(pc.greater_equal(numbers, -_MOST_MILLIS), pc.less_equal(numbers, _MOST_MILLIS))
    return pc.if_else(fits, times, pa.scalar(None, times.type))


def _key_column(messages: Sequence[Any]) -> pa.Array:
    return pa.array(list(map(Message.key, messages)), pa.binary())


def _value_column(messages: Sequence[Any]) -> pa.Array:
    return pa.array(list(map(Message.value, messages)), pa.binary())


def _offsets(messages: Sequence[Any]) -> Sequence[int]:
    """Return the offsets. They increase, so if last - first matches their number, a range has no gap."""
    first, last = messages[0].offset(), messages[-1].offset()
    if last - first == len(messages) - 1:
        return range(first, last + 1)
    return list(map(Message.offset, messages))


def _offset_column(chunks: Sequence[Sequence[int]], count: int) -> pa.Array:
    """Return the offsets of all chunks, with one call if there is no gap."""
    first, last = chunks[0][0], chunks[-1][-1]
    if last - first == count - 1 and count <= len(_STEPS):
        return pc.add(_STEPS.slice(0, count), pa.scalar(first, pa.int64()))
    return pa.array(list(chain.from_iterable(chunks)), pa.int64())


def _time_columns(messages: Sequence[Any]) -> tuple[pa.Array, pa.Array]:
    """Return timestamps and their types: the producer's (0), the broker's (1), or none (-1)."""
    kinds, times = zip(*map(Message.timestamp, messages), strict=True)
    if kinds.count(kinds[0]) == len(kinds) and kinds[0] != TIMESTAMP_NOT_AVAILABLE:
        whose = pa.repeat(pa.scalar(kinds[0] - TIMESTAMP_CREATE_TIME, pa.int32()), len(kinds))
    else:
        whose = pa.array([kind - TIMESTAMP_CREATE_TIME for kind in kinds], pa.int32())
        times = tuple(-1 if kind == TIMESTAMP_NOT_AVAILABLE else at for kind, at in zip(kinds, times, strict=True))
    return pa.array(times, pa.int64()).view(MILLIS), whose


_MADE: Mapping[str, Callable[[Sequence[Any]], pa.Array]] = {
    "key": _key_column,
    "value": _value_column,
}
