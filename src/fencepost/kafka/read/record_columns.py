"""Records of one partition as Arrow columns: names and types are those of Spark's own Kafka source."""

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
"""How many records make a batch."""
AT_ONCE = 2_000
"""How many messages make a good lot: what a call of Arrow's costs by itself is shared by many, and they are not yet
out of the processor's cache."""
_BYTES = 8 << 20
_MICROS, MILLIS = (pa.timestamp(unit, tz="UTC") for unit in ("us", "ms"))
_MOST_MILLIS = ((1 << 63) - 1) // 1_000
CONSTANT = ("topic", "partition")
"""Columns in which all records are the same."""
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
    """Return these columns of a batch; `headers` is null where a record has none.

    `texts`: which of `key` and `value` are text, whose bytes nobody checks.
    """
    return pa.schema([(name, pa.string() if name in texts else _TYPES[name]) for name in names])


class RecordColumns:
    """Collects messages of one partition until they make a batch.

    Column by column, by the client's own methods: a step of Python's for each record would cost as much as all of these
    together. Each lot becomes Arrow's at once, while its bytes are still in the processor's cache, and is let go. Only
    the columns of the schema are made.
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
        """Add messages, none of which is an event: AT_ONCE at most."""
        if not messages:
            return
        if self._has_offsets:
            self._offsets.append(_offsets(messages))
        for name in self._made:
            lot = self._header_column(messages) if name == _HEADERS else _MADE[name](messages)
            self._lots[name].append(lot)
            if name == "value":
                self._size_bytes += lot.nbytes
        if self._has_times:
            for name, lot in zip(_TIMES, _time_columns(messages), strict=True):
                self._lots[name].append(lot)
        self._rows += len(messages)

    def _header_column(self, messages: Sequence[Any]) -> pa.Array:
        return header_lists(headers_of(messages, self._read_again))

    def batches(self) -> list[pa.RecordBatch]:
        """Return what was collected, as several batches where one lot alone has very much; and begin anew."""
        whole = pa.RecordBatch.from_arrays([self._column(field) for field in self._schema], schema=self._schema)
        size_bytes = self._size_bytes
        self._clear()
        return pieces(whole, size_bytes)

    def _column(self, field: pa.Field) -> pa.Array:
        if field.name in CONSTANT:
            return constant(self._place, field, self._rows)
        if field.name == _OFFSET:
            return _offset_column(self._offsets, self._rows)
        return typed(pa.concat_arrays(self._lots[field.name]), field)

    def _clear(self) -> None:
        self._lots: dict[str, list[pa.Array]] = {name: [] for name in (*_MADE, _HEADERS, *_TIMES)}
        self._offsets: list[Sequence[int]] = []
        self._rows = self._size_bytes = 0


def pieces(whole: pa.RecordBatch, size_bytes: int) -> list[pa.RecordBatch]:
    """Return a batch, which has so many bytes, as several where it has very much; none where it has no row."""
    step = max(1, min(2 * ROWS, len(whole) * 2 * _BYTES // max(size_bytes, 1)))
    return [whole.slice(start, step) for start in range(0, len(whole), step)]


def constant(place: TopicPartition, field: pa.Field, count: int) -> pa.Array:
    """Return a column in which all records are the same."""
    return pa.repeat(pa.scalar(getattr(place, field.name), field.type), count)


def typed(column: pa.Array, field: pa.Field) -> pa.Array:
    """Return a column as the schema has it; nobody looks at the bytes of a text.

    A time that microseconds cannot hold, of a year beyond 294,000, is null: a record that has it is read all the same.
    """
    if pa.types.is_string(field.type):
        return column.view(field.type)
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid:
        return _fitting(column).cast(field.type)


def _fitting(times: pa.Array) -> pa.Array:
    """Return times without those that are too far from now to be counted in microseconds."""
    numbers = times.view(pa.int64())
    fits = pc.and_(pc.greater_equal(numbers, -_MOST_MILLIS), pc.less_equal(numbers, _MOST_MILLIS))
    return pc.if_else(fits, times, pa.scalar(None, times.type))


def _key_column(messages: Sequence[Any]) -> pa.Array:
    return pa.array(list(map(Message.key, messages)), pa.binary())


def _value_column(messages: Sequence[Any]) -> pa.Array:
    return pa.array(list(map(Message.value, messages)), pa.binary())


def _offsets(messages: Sequence[Any]) -> Sequence[int]:
    """Return the offsets; they rise, so where so many lie between the first and the last there is no gap."""
    first, last = messages[0].offset(), messages[-1].offset()
    if last - first == len(messages) - 1:
        return range(first, last + 1)
    return list(map(Message.offset, messages))


def _offset_column(lots: Sequence[Sequence[int]], count: int) -> pa.Array:
    """Return the offsets of all lots: by one call where there is no gap."""
    first, last = lots[0][0], lots[-1][-1]
    if last - first == count - 1 and count <= len(_STEPS):
        return pc.add(_STEPS.slice(0, count), pa.scalar(first, pa.int64()))
    return pa.array(list(chain.from_iterable(lots)), pa.int64())


def _time_columns(messages: Sequence[Any]) -> tuple[pa.Array, pa.Array]:
    """Return times, and whose they are: the producer's (0), the broker's (1), or nobody's (-1)."""
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
