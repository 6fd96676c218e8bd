"""Records of one partition as Arrow columns: names and types are those of Spark's own Kafka source."""

from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, Message

from fencepost.record import TopicPartition

_ROWS = 10_000
_BYTES = 8 << 20
_NONE = {type(None)}
_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
_MICROS, _MILLIS = (pa.timestamp(unit, tz="UTC") for unit in ("us", "ms"))
_FIELDS = [
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", _MICROS),
    ("timestampType", pa.int32()),
]


def schema(*, has_headers: bool) -> pa.Schema:
    """Return the columns of a batch; `headers` is null where a record has none."""
    return pa.schema([*_FIELDS, ("headers", pa.list_(_HEADER))] if has_headers else _FIELDS)


def is_plain(messages: Sequence[Any]) -> bool:
    """Say whether none of the client's messages is an event. Errors must not be compared: the client's fail at it."""
    return set(map(type, map(Message.error, messages))) <= _NONE


class RecordColumns:
    """Collects messages of one partition until they make a batch.

    Column by column, by the client's own methods: a step of Python's for each record would cost as much as all of these
    together. Each lot becomes Arrow's at once, while its bytes are still in the processor's cache, and is let go.
    """

    def __init__(self, place: TopicPartition, *, has_headers: bool) -> None:
        self._place = place
        self._schema = schema(has_headers=has_headers)
        self._has_headers = has_headers
        self._clear()

    def __len__(self) -> int:
        return self._rows

    @property
    def is_full(self) -> bool:
        return self._rows >= _ROWS or self._size_bytes >= _BYTES

    def take(self, messages: Sequence[Any]) -> None:
        """Add messages, none of which is an event."""
        if not messages:
            return
        values = pa.array(list(map(Message.value, messages)), pa.binary())
        kinds, times = zip(*map(Message.timestamp, messages), strict=True)
        if TIMESTAMP_NOT_AVAILABLE in kinds:
            times = tuple(-1 if kind == TIMESTAMP_NOT_AVAILABLE else at for kind, at in zip(kinds, times, strict=True))
        self._values.append(values)
        self._keys.append(pa.array(list(map(Message.key, messages)), pa.binary()))
        self._offsets.append(pa.array(list(map(Message.offset, messages)), pa.int64()))
        self._times.append(pa.array(times, _MILLIS))
        self._kinds.append(_kind_column(kinds))
        if self._has_headers:
            self._headers += map(Message.headers, messages)
        self._rows += len(messages)
        self._size_bytes += values.nbytes

    def batch(self) -> pa.RecordBatch:
        """Return what was collected, and begin anew."""
        columns = [
            pa.concat_arrays(self._keys),
            pa.concat_arrays(self._values),
            pa.repeat(pa.scalar(self._place.topic, pa.string()), self._rows),
            pa.repeat(pa.scalar(self._place.partition, pa.int32()), self._rows),
            pa.concat_arrays(self._offsets),
            pa.concat_arrays(self._times).cast(_MICROS),
            pa.concat_arrays(self._kinds),
        ]
        if self._has_headers:
            columns.append(_header_column(self._headers))
        self._clear()
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _clear(self) -> None:
        self._keys: list[pa.Array] = []
        self._values: list[pa.Array] = []
        self._offsets: list[pa.Array] = []
        self._times: list[pa.Array] = []
        self._kinds: list[pa.Array] = []
        self._headers: list[list[tuple[str, bytes | None]] | None] = []
        self._rows = self._size_bytes = 0


def _kind_column(kinds: Sequence[int]) -> pa.Array:
    """Return whose times they are: the producer's (0), the broker's (1), or nobody's (-1)."""
    if len(set(kinds)) == 1:
        return pa.repeat(pa.scalar(kinds[0] - TIMESTAMP_CREATE_TIME, pa.int32()), len(kinds))
    return pa.array([kind - TIMESTAMP_CREATE_TIME for kind in kinds], pa.int32())


def _header_column(headers: Sequence[Sequence[tuple[str, bytes | None]] | None]) -> pa.Array:
    if set(map(type, headers)) <= _NONE:
        return pa.nulls(len(headers), pa.list_(_HEADER))
    flat = list(chain.from_iterable(filter(None, headers)))
    entries = pa.StructArray.from_arrays(
        [pa.array([name for name, _ in flat], pa.string()), pa.array([value for _, value in flat], pa.binary())],
        fields=list(_HEADER),
    )
    ends = list(accumulate((len(each) if each else 0 for each in headers), initial=0))
    starts = [start if each else None for start, each in zip(ends, headers, strict=False)]
    return pa.ListArray.from_arrays(pa.array([*starts, ends[-1]], pa.int32()), entries, type=pa.list_(_HEADER))
