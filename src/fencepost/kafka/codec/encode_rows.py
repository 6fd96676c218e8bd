"""Converts columns of records of any kind to the binary columns that are encoded."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.kafka.codec.compress import Codec
from fencepost.kafka.codec.encode import Rows, encode_batch
from fencepost.kafka.codec.encode_field import column, joined, lengths, varints
from fencepost.kafka.codec.encode_header import BatchProducer
from fencepost.kafka.value.header_lists import header_lists
from fencepost.record import HeaderBytes, HeaderColumn, Repeated, Runs, Utf8Column, runs_of

Column: TypeAlias = pa.Array | pa.ChunkedArray | Utf8Column | Sequence[bytes | None]
Headers: TypeAlias = pa.Array | HeaderColumn | Sequence[Sequence[HeaderBytes]]

_BINARY, _INT32, _INT64 = pa.binary(), pa.int32(), pa.int64()


def rows(
    values: Column,
    *,
    now_ms: int,
    keys: Column | None = None,
    timestamps: pa.Array | Sequence[int | None] | None = None,
    headers: Headers | None = None,
) -> Rows:
    """Return records of one topic as columns of one length. Text becomes UTF-8 bytes; Arrow columns are not copied.

    `timestamps` are milliseconds since 1970; `now_ms` replaces missing ones. `headers` from Arrow are lists of structs
    of a name and a value.
    """
    return Rows(
        binary_column(values),
        _times(timestamps, now_ms),
        None if keys is None else _or_none(binary_column(keys)),
        None if headers is None else _headers(headers),
    )


def binary_column(data: Column) -> pa.Array:
    """Return bytes or text as one binary array."""
    if isinstance(data, pa.ChunkedArray):
        data = data.combine_chunks()
    if isinstance(data, pa.Array):
        return data if data.type == _BINARY else data.cast(_BINARY)
    return pa.array(data.utf8() if isinstance(data, Utf8Column) else data, _BINARY)


def number_column(data: pa.Array | Sequence[int | None], kind: pa.DataType) -> pa.Array:
    """Return whole numbers as an array of one type."""
    return data.cast(kind) if isinstance(data, pa.Array) else pa.array(data, kind)


def _or_none(data: pa.Array) -> pa.Array | None:
    return None if data.null_count == len(data) else data


def _times(timestamps: Any, now_ms: int) -> pa.Array | int:
    if timestamps is None:
        return now_ms
    times = number_column(timestamps, _INT64)
    return pc.fill_null(times, pa.scalar(now_ms, _INT64)) if times.null_count else times


def _headers(headers: Headers) -> pa.Array | None:
    """Return each row's headers as in a record. Those that many rows have in common are encoded once."""
    if not isinstance(headers, Repeated | Runs):
        return _encoded_headers(_header_lists(headers))
    runs = [*runs_of(headers)]
    encoded = _encoded_headers(header_lists([each for each, _ in runs]))
    return encoded and pa.concat_arrays(
        [pa.repeat(each, count) for each, (_, count) in zip(encoded, runs, strict=True)]
    )


def _header_lists(headers: Headers) -> pa.Array:
    if isinstance(headers, pa.Array):
        return headers
    return header_lists(headers.raw if isinstance(headers, HeaderColumn) else headers)


def _encoded_headers(lists: pa.Array) -> pa.Array | None:
    """Return each row's headers as in a record: their number, then names and values with their lengths."""
    entries = lists.flatten()
    if not len(entries):
        return None
    names, values = map(binary_column, entries.flatten())
    each = joined((varints(lengths(names)), column(names), varints(lengths(values)), column(values)))
    counts = pc.fill_null(pc.list_value_length(lists), pa.scalar(0, _INT32))
    ends = pc.cumulative_sum(counts)
    offsets = pa.concat_arrays([pa.array([0], _INT32), ends])
    of_a_row = pc.binary_join(pa.ListArray.from_arrays(offsets, each), pa.scalar(b"", _BINARY))
    return joined((varints(counts), column(of_a_row)))


class Columns(Protocol):
    """Records of one partition, in order. `headers` is None if no record has any; all may have the same timestamp."""

    @property
    def values(self) -> Any: ...
    @property
    def keys(self) -> Any: ...
    @property
    def timestamps(self) -> Any: ...
    @property
    def headers(self) -> Any: ...


def encode_columns(
    columns: Columns,
    *,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    transactional: bool,
    compression: str,
) -> tuple[bytes, int]:
    """Return the bytes of a batch of these records (at least one), and the number of records."""
    times = columns.timestamps
    now_ms, each = (times, None) if isinstance(times, int) else (0, times)
    made = rows(columns.values, now_ms=now_ms, keys=columns.keys, timestamps=each, headers=columns.headers)
    batch = encode_batch(made, Codec(compression))
    return b"".join(
        batch.stamped(BatchProducer(producer_id, producer_epoch, transactional), base_sequence)
    ), batch.count
