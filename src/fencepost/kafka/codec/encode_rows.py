"""Converts columns of records of any kind to the binary columns that are encoded."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.kafka.codec.columns import Column, PartitionColumns, binary
from fencepost.kafka.codec.compress import Codec
from fencepost.kafka.codec.encode import Rows, column, encode_batch, joined, lengths, varints
from fencepost.kafka.codec.encode_header import BatchProducer
from fencepost.kafka.value.fetched import header_lists
from fencepost.record import HeaderBytes, HeaderColumn, Repeated, Runs, runs_of

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
    found = None if keys is None else binary(keys)
    return Rows(
        binary(values),
        _times(timestamps, now_ms),
        None if found is None or found.null_count == len(found) else found,
        None if headers is None else _headers(headers),
    )


def _times(timestamps: Any, now_ms: int) -> pa.Array | int:
    if timestamps is None:
        return now_ms
    times = timestamps.cast(_INT64) if isinstance(timestamps, pa.Array) else pa.array(timestamps, _INT64)
    return pc.fill_null(times, pa.scalar(now_ms, _INT64)) if times.null_count else times


def _headers(headers: Headers) -> pa.Array | None:
    """Return each row's headers as in a record. Those that many rows have in common are encoded once."""
    if not isinstance(headers, Repeated | Runs):
        if not isinstance(headers, pa.Array):
            headers = header_lists(headers.raw if isinstance(headers, HeaderColumn) else headers)
        return _encoded_headers(headers)
    runs = [*runs_of(headers)]
    encoded = _encoded_headers(header_lists([each for each, _ in runs]))
    return encoded and pa.concat_arrays(
        [pa.repeat(each, count) for each, (_, count) in zip(encoded, runs, strict=True)]
    )


def _encoded_headers(lists: pa.Array) -> pa.Array | None:
    """Return each row's headers as in a record: their number, then names and values with their lengths."""
    entries = lists.flatten()
    if not len(entries):
        return None
    names, values = map(binary, entries.flatten())
    each = joined((varints(lengths(names)), column(names), varints(lengths(values)), column(values)))
    counts = pc.fill_null(pc.list_value_length(lists), pa.scalar(0, _INT32))
    ends = pc.cumulative_sum(counts)
    offsets = pa.concat_arrays([pa.array([0], _INT32), ends])
    of_a_row = pc.binary_join(pa.ListArray.from_arrays(offsets, each), pa.scalar(b"", _BINARY))
    return joined((varints(counts), column(of_a_row)))


def encode_columns(
    columns: PartitionColumns,
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
