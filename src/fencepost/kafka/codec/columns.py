"""Records of one partition as columns, queues of records that will become batches, and the encoding of columns."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.kafka.codec.compress import Codec
from fencepost.kafka.codec.encode import Rows, column, encode_batch, joined, lengths, varints
from fencepost.kafka.codec.encode_header import BatchProducer, EncodedBatch
from fencepost.kafka.value.fetched import header_lists
from fencepost.kafka.value.whole import DeliveryCallback
from fencepost.record import BinaryColumn, HeaderBytes, HeaderColumn, Repeated, Runs, Utf8Column, joined_column, runs_of
from fencepost.record.binary_column import size_bytes

# The bytes around a record's own: its length, attributes, offset, the lengths of key and value, the number of headers.
_AROUND = 5 + 1 + 4 + 5 + 5 + 5
_SAME_TIME, _ANY_TIME = 5, 10  # one for all of a call, and some calls in a batch
_AROUND_HEADER = 5 + 5
_BATCH_HEADER = 61
# A number whose type Arrow must infer costs as much as a column of numbers, because Arrow looks for packages first.
_BINARY, _INT32, _INT64 = pa.binary(), pa.int32(), pa.int64()
_NOTHING = pa.scalar(0, pa.int32())
Column: TypeAlias = pa.Array | pa.ChunkedArray | Utf8Column | Sequence[bytes | None]
Headers = Sequence[Sequence[HeaderBytes]]
AnyHeaders: TypeAlias = pa.Array | HeaderColumn | Headers


class PartitionColumns(NamedTuple):
    """Records of one partition, in order, as Arrow arrays of bytes. A null is a tombstone or a missing key.

    `keys` is None if no record has one, `headers` is None if no record has any. `timestamps` are milliseconds since
    1970: one number for all records, or an array with one for each. `callbacks` are called with (error, message), by
    the index of their record, once that record is written.
    """

    values: Any
    keys: Any = None
    timestamps: Any = 0
    headers: Headers | None = None
    callbacks: Mapping[int, DeliveryCallback] = MappingProxyType({})

    def part(self, start: int, stop: int) -> "PartitionColumns":
        """Return records `start` up to before `stop`."""
        if (start, stop) == (0, len(self.values)):
            return self
        times = self.timestamps
        return PartitionColumns(
            self.values[start:stop],
            None if self.keys is None else self.keys[start:stop],
            times if isinstance(times, int) else times[start:stop],
            None if self.headers is None else self.headers[start:stop],
            {index - start: call for index, call in self.callbacks.items() if start <= index < stop},
        )

    @property
    def rows(self) -> int:
        return len(self.values)

    def timestamp(self, index: int) -> int:
        times = self.timestamps
        return times if isinstance(times, int) else int(times[index].as_py())

    def own_bytes(self) -> int:
        """Return the total size of all keys, values and headers."""
        own = size_bytes(self.values)
        if self.keys is not None:
            own += size_bytes(self.keys)
        if self.headers is not None:
            own += sum(count * _own_bytes(each) for each, count in runs_of(self.headers))
        return own

    def most_bytes(self) -> int:
        """Return the most bytes that all records can take in a batch: the sum of `sizes`, without computing each."""
        headers = 0 if self.headers is None else sum(count * len(each) for each, count in runs_of(self.headers))
        return self.own_bytes() + len(self.values) * self._around_each + headers * _AROUND_HEADER

    def sizes(self) -> Any:
        """Return the most bytes that each record can take in a batch, as an Arrow array."""
        sizes = pc.add(_lengths(self.values), pa.scalar(self._around_each, _INT64))
        if self.keys is not None:
            sizes = pc.add(sizes, _lengths(self.keys))
        if self.headers is not None:
            sizes = pc.add(sizes, _header_bytes(self.headers))
        return sizes

    @property
    def _around_each(self) -> int:
        return _AROUND + (_SAME_TIME if isinstance(self.timestamps, int) else _ANY_TIME)


class Taken(NamedTuple):
    """A batch that is sent unchanged, and the callbacks of its records."""

    batch: EncodedBatch
    callbacks: Mapping[int, DeliveryCallback]

    @property
    def rows(self) -> int:
        return self.batch.count

    def timestamp(self, index: int) -> int:
        """Return the newest timestamp of the batch, because its records are not decoded."""
        return self.batch.newest_timestamp

    def own_bytes(self) -> int:
        return len(self.batch)


Content = PartitionColumns | Taken


class Pending:
    """Queued records for one batch. It is full at `most_bytes` or `most_records`; one record alone may be larger.

    The size of the encoded batch is counted, not the records' own bytes: a topic refuses a batch that is a byte too
    large.
    """

    def __init__(self, most_bytes: int, most_records: int) -> None:
        self._most_bytes, self._most_records = most_bytes - _BATCH_HEADER, most_records
        self._pieces: list[PartitionColumns] = []
        self.size_bytes = self.own_bytes = self.count = 0

    @property
    def is_full(self) -> bool:
        return self.size_bytes >= self._most_bytes or self.count >= self._most_records

    def add(self, columns: PartitionColumns) -> int:
        """Queue as many of the first records as fit, and at least one if the queue is empty. Returns how many."""
        first = columns.part(0, min(len(columns.values), self._most_records - self.count))
        count, total = len(first.values), first.most_bytes()
        room = self._most_bytes - self.size_bytes
        if total > room:
            running = pc.cumulative_sum(first.sizes())
            count = pc.sum(pc.less_equal(running, pa.scalar(room, _INT64))).as_py() or 0
            if count == 0 and self.count == 0:
                count = 1
            total = running[count - 1].as_py() if count else 0
        if count:
            taken = first.part(0, count)
            self._pieces.append(taken)
            self.size_bytes += total
            self.own_bytes += taken.own_bytes()
            self.count += count
        return count

    def take(self) -> PartitionColumns:
        """Return all queued records as one, and empty the queue."""
        pieces, self._pieces = self._pieces, []
        self.size_bytes = self.own_bytes = self.count = 0
        return pieces[0] if len(pieces) == 1 else _joined(pieces)


class QueuedRecords:
    """Queued batches of records for one partition.

    They are due when the records' own bytes reach `due_bytes`, or there are `most_records`. The records' own bytes
    count here, without a batch's overhead, because users of a buffering producer expect that. No batch is made larger
    than `topic_bytes`.
    """

    def __init__(self, due_bytes: int, most_records: int, topic_bytes: int | None = None) -> None:
        self._due_bytes, self._most_records = due_bytes, most_records
        self._full: list[Content] = []
        self._last = Pending(due_bytes if topic_bytes is None else min(due_bytes, topic_bytes), most_records)
        self.own_bytes = self.count = 0

    @property
    def is_due(self) -> bool:
        return self.own_bytes >= self._due_bytes or self.count >= self._most_records

    def add(self, columns: PartitionColumns) -> int:
        """Queue as many of the first records as fit in the last batch, or one. Returns how many."""
        before = self._last.own_bytes
        taken = self._last.add(columns)
        self.own_bytes += self._last.own_bytes - before
        self.count += taken
        if taken < len(columns.values) or self._last.is_full:
            self._full.append(self._last.take())
        return taken

    def add_taken(self, taken: Taken) -> None:
        """Queue a whole batch after the queued records, which then form a batch of their own."""
        if self._last.count:
            self._full.append(self._last.take())
        self._full.append(taken)
        self.own_bytes += taken.own_bytes()
        self.count += taken.rows

    def take(self, *, whole: bool) -> list[Content]:
        """Remove and return the full batches and, with `whole`, also the last one."""
        found, self._full = self._full, []
        if whole and self._last.count:
            found.append(self._last.take())
        self.own_bytes, self.count = self._last.own_bytes, self._last.count
        return found


def binary(column: Column) -> Any:
    """Return bytes or text as one Arrow array of bytes. Text becomes UTF-8; Arrow columns are not copied."""
    if isinstance(column, BinaryColumn):
        return column.array
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.Array):
        return column if column.type == pa.binary() else column.cast(pa.binary())
    return pa.array(column.utf8() if isinstance(column, Utf8Column) else column, pa.binary())


def _joined(pieces: Sequence[PartitionColumns]) -> PartitionColumns:
    callbacks: dict[int, DeliveryCallback] = {}
    at = 0
    for piece in pieces:
        callbacks.update({at + index: call for index, call in piece.callbacks.items()})
        at += len(piece.values)
    keys = headers = None
    if any(piece.keys is not None for piece in pieces):
        binary = pa.binary()
        each_key = [pa.nulls(len(each.values), binary) if each.keys is None else each.keys for each in pieces]
        keys = pa.concat_arrays(each_key)
    if any(piece.headers is not None for piece in pieces):
        headers = joined_column([piece.headers or Repeated((), len(piece.values)) for piece in pieces])
    values = pa.concat_arrays([piece.values for piece in pieces])
    return PartitionColumns(
        values, keys, joined_times([(piece.timestamps, len(piece.values)) for piece in pieces]), headers, callbacks
    )


def joined_times(pieces: Sequence[tuple[Any, int]]) -> Any:
    """Return the timestamps of pieces (at least one), with their numbers of records: one number if all are equal."""
    first = pieces[0][0]
    if isinstance(first, int) and all(isinstance(at, int) and at == first for at, _ in pieces):
        return first
    return pa.concat_arrays(
        [pa.repeat(pa.scalar(at, _INT64), count) if isinstance(at, int) else at for at, count in pieces]
    )


def _lengths(column: Any) -> Any:
    lengths = pc.binary_length(column)
    return (pc.fill_null(lengths, _NOTHING) if lengths.null_count else lengths).cast(_INT64)


def _own_bytes(headers: Sequence[HeaderBytes]) -> int:
    return sum(len(name.encode()) + len(value or b"") for name, value in headers)


def _header_bytes(headers: AnyHeaders) -> Any:
    found = [(_own_bytes(each) + len(each) * _AROUND_HEADER, count) for each, count in runs_of(headers)]
    if len(found) == len(headers):
        return pa.array([size for size, _ in found], _INT64)
    return pa.concat_arrays([pa.repeat(pa.scalar(size, _INT64), count) for size, count in found])


def rows(
    values: Column,
    *,
    now_ms: int,
    keys: Column | None = None,
    timestamps: pa.Array | Sequence[int | None] | None = None,
    headers: AnyHeaders | None = None,
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


def _headers(headers: AnyHeaders) -> pa.Array | None:
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
