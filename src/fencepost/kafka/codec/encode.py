"""Encodes Arrow columns as the records of a batch: column by column, or row by row if there are only a few rows.

A record is: its length, attributes (none), timestamp delta, offset delta, key with its length, value with its length,
number of headers, headers. Everything except the bytes themselves is a varint. Each field is a column of bytes. Arrow
joins the columns row by row, which is the only copy. That has a fixed cost, so a few rows, such as the source
offsets of a transaction, are encoded by a plain loop.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.kafka.codec.compress import Codec
from fencepost.kafka.codec.encode_field import EncodedField, column, joined, lengths, steps, total, varint, varints
from fencepost.kafka.codec.encode_header import Buffer, EncodedBatch
from fencepost.record.binary_column import size_bytes

_ATTRIBUTES = b"\0"
_SAME_TIME = b"\0"
_NO_KEY = b"\1"
_NO_HEADERS = b"\0"

FEW = 16
"""Up to this many rows a loop is faster than columns."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Records in order, for one topic. Columns are binary arrays of equal length; `encode_rows.rows` makes them.

    `keys` is None if no row has one. `headers` is None if no row has any; otherwise each row has its headers encoded as
    in a record, with their number. `timestamps` are milliseconds since 1970: a column of int64 without nulls, or one
    number for all rows.
    """

    values: pa.Array
    timestamps: pa.Array | int
    keys: pa.Array | None = None
    headers: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def columns(self) -> tuple[pa.Array, ...]:
        """Return the columns of bytes."""
        return tuple(column for column in (self.values, self.keys, self.headers) if column is not None)

    def slice(self, start: int, stop: int) -> "Rows":
        """Return rows `start` up to before `stop`, without copying."""
        if start == 0 and stop == len(self):
            return self
        return self._each(lambda column: column.slice(start, stop - start))

    def take(self, indices: pa.Array) -> "Rows":
        """Return the rows at these indexes, in that order."""
        return self._each(lambda column: column.take(indices))

    def _each(self, part: Callable[[pa.Array], pa.Array]) -> "Rows":
        times = self.timestamps
        return Rows(
            part(self.values),
            times if isinstance(times, int) else part(times),
            None if self.keys is None else part(self.keys),
            None if self.headers is None else part(self.headers),
        )


def encode_batch(rows: Rows, codec: Codec) -> EncodedBatch:
    """Encode rows (at least one) as one batch. It is left uncompressed if compression would not make it smaller."""
    body = (_one_by_one(rows),) if len(rows) <= FEW else _records(rows)
    packed = codec.compress(b"".join(body)) if codec.number else None
    first, newest = _times(rows)
    if packed is None:
        return EncodedBatch(body, len(rows), 0, first, newest)
    return EncodedBatch((packed,), len(rows), codec.number, first, newest)


def _times(rows: Rows) -> tuple[int, int]:
    times = rows.timestamps
    return (times, times) if isinstance(times, int) else (times[0].as_py(), pc.max(times).as_py())


def _one_by_one(rows: Rows) -> bytes:
    count, times = len(rows), rows.timestamps
    keys, headers = (_values(each, count) for each in (rows.keys, rows.headers))
    each_time = [times] * count if isinstance(times, int) else times.to_pylist()
    records: list[bytes] = []
    for index, value in enumerate(rows.values.to_pylist()):
        numbers = varint(each_time[index] - each_time[0]) + varint(index)
        record = _ATTRIBUTES + numbers + _sized(keys[index]) + _sized(value) + (headers[index] or _NO_HEADERS)
        records += varint(len(record)), record
    return b"".join(records)


def _values(data: pa.Array | None, count: int) -> list[bytes | None]:
    return [None] * count if data is None else data.to_pylist()


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def _records(rows: Rows) -> tuple[Buffer, ...]:
    """Return the records one after another.

    If no row has headers, each record ends with the number 0. That byte is put in the column of the next record's
    length, because a separate column would cost as much as the value's. So the first byte is superfluous and the last
    missing.
    """
    fields = _fields(rows)
    turned = _NO_HEADERS if rows.headers is None else b""
    length = total([each.width for each in fields] + [len(turned)])
    if isinstance(length, int):
        length = pa.repeat(length, len(rows))
    records = joined((varints(length, before=turned), *fields))
    _, _, data = records.buffers()
    whole = memoryview(data)[len(turned) : size_bytes(records)]
    return (whole, turned) if turned else (whole,)


def _fields(rows: Rows) -> list[EncodedField]:
    """Return the fields after a record's length, without the number of headers if there are none."""
    fields = []
    no_key = _NO_KEY if rows.keys is None else b""
    times = rows.timestamps
    if isinstance(times, int) or pc.all(pc.equal(times, times[0])).as_py():
        fields.append(steps(len(rows), _ATTRIBUTES + _SAME_TIME, no_key))
    else:
        deltas = pc.subtract(times, times[0])
        fields += varints(deltas, before=_ATTRIBUTES), steps(len(rows), b"", no_key)
    if rows.keys is not None:
        fields += varints(lengths(rows.keys)), column(rows.keys)
    fields += varints(lengths(rows.values)), column(rows.values)
    if rows.headers is not None:
        fields.append(column(rows.headers))
    return fields
