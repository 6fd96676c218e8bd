"""Fetched records, and the headers of records, as columns."""

from array import array
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from typing import Any, TypeVar

import pyarrow as pa
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE, Message

from fencepost.record import AppendTime, BinaryColumn, HeaderBytes, Repeated, Runs, TopicPartition

HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
_NONE = {type(None)}


def header_lists(headers: Sequence[Sequence[HeaderBytes] | None]) -> pa.Array:
    """Return the headers of records as lists of structs; null for a record without headers."""
    if set(map(type, headers)) <= _NONE:
        return pa.nulls(len(headers), pa.list_(HEADER))
    flat = list(chain.from_iterable(filter(None, headers)))
    entries = pa.StructArray.from_arrays(
        [pa.array([name for name, _ in flat], pa.string()), pa.array([value for _, value in flat], pa.binary())],
        fields=list(HEADER),
    )
    ends = list(accumulate((len(each) if each else 0 for each in headers), initial=0))
    starts = [start if each else None for start, each in zip(ends, headers, strict=False)]
    return pa.ListArray.from_arrays(pa.array([*starts, ends[-1]], pa.int32()), entries, type=pa.list_(HEADER))


Headers = Sequence[HeaderBytes]
ReadAgain = Callable[[TopicPartition, int], Headers]


def headers_of(messages: Sequence[Any], read_again: ReadAgain) -> list[Headers | None]:
    """Return the headers of the client's messages. None of them may be an event, or have been asked for headers before.

    If a header's name is not UTF-8, the client raises a SystemError, and its next call for the same message returns a
    damaged object. So each message is asked once. If that fails, its headers are read again as bytes, and U+FFFD
    replaces what is not text in a name, as in Java and Kafka Connect.

    Raises whatever `read_again` raises.
    """
    found: list[Headers | None] = []
    while len(found) < len(messages):
        try:
            found.extend(map(Message.headers, messages[len(found) :]))  # keeps what precedes an error
        except (SystemError, UnicodeDecodeError):
            odd = messages[len(found)]
            found.append(read_again(TopicPartition(odd.topic(), odd.partition()), odd.offset()))
    return found


T = TypeVar("T")

_TIMES: dict[int, Callable[[int], int | None]] = {
    TIMESTAMP_NOT_AVAILABLE: lambda _: None,
    TIMESTAMP_CREATE_TIME: int,
    TIMESTAMP_LOG_APPEND_TIME: AppendTime,
}


@dataclass
class Fetched:
    """Records as columns: bytes as they are in Kafka, timestamps in milliseconds since 1970.

    A timestamp that the broker has set is an `AppendTime`.
    """

    places: Sequence[TopicPartition] = ()
    offsets: Sequence[int] = ()
    timestamps: Sequence[int | None] = ()
    keys: Sequence[bytes | None] = ()
    values: Sequence[bytes | None] = ()
    headers: Sequence[Sequence[tuple[str, bytes | None]]] | None = None
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    """The position after these records, by partition. It is past entries that readers never see, such as markers."""
    epochs: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    """By partition, if known: an offset, and the leader epoch of the record before it."""

    def __len__(self) -> int:
        return len(self.offsets)

    @classmethod
    def of(cls, messages: Sequence[Any], read_again: ReadAgain) -> "Fetched":
        """Convert the client's messages to columns; none may be an error. `read_again` reads headers as bytes.

        This maps the client's own methods over all messages, one column at a time. One Python-level step per record
        would cost as much as all of these together.
        """
        if not messages:
            return cls()
        headers = headers_of(messages, read_again)
        kinds, times = zip(*map(Message.timestamp, messages), strict=True)
        return cls(
            _places(list(map(Message.topic, messages)), list(map(Message.partition, messages))),
            list(map(Message.offset, messages)),
            list(times) if kinds.count(TIMESTAMP_CREATE_TIME) == len(kinds) else _times(kinds, times),
            list(map(Message.key, messages)),
            list(map(Message.value, messages)),
            [each or [] for each in headers] if any(headers) else None,
        )

    @classmethod
    def joined(cls, chunks: "Sequence[Fetched]") -> "Fetched":
        """Concatenate several fetches."""
        if len(chunks) <= 1:
            return chunks[0] if chunks else cls()
        has_headers = any(chunk.headers is not None for chunk in chunks)
        headers = chain.from_iterable(chunk.headers or Repeated((), len(chunk)) for chunk in chunks)
        full = [chunk for chunk in chunks if len(chunk)]
        return cls(
            _joined([chunk.places for chunk in full]),
            _numbers_joined([chunk.offsets for chunk in full]),
            _numbers_joined([chunk.timestamps for chunk in full]),
            _bytes_joined([chunk.keys for chunk in full]),
            _bytes_joined([chunk.values for chunk in full]),
            list(headers) if has_headers else None,
            {place: end for chunk in chunks for place, end in chunk.ends.items()},
            {place: epoch for chunk in chunks for place, epoch in chunk.epochs.items()},
        )

    def without(self, places: Collection[TopicPartition]) -> "Fetched":
        """Return the records and positions of all other partitions."""
        return replace(
            self._records_without(places),
            ends={place: end for place, end in self.ends.items() if place not in places},
            epochs={place: epoch for place, epoch in self.epochs.items() if place not in places},
        )

    def _records_without(self, places: Collection[TopicPartition]) -> "Fetched":
        if isinstance(self.places, Repeated | Runs):
            runs = _runs(self.places)
            return Fetched.joined([self.part(start, stop) for place, start, stop in runs if place not in places])
        kept = [index for index, place in enumerate(self.places) if place not in places]

        def column(values: Sequence[T]) -> list[T]:
            return [values[index] for index in kept]

        return Fetched(
            column(self.places),
            column(self.offsets),
            column(self.timestamps),
            column(self.keys),
            column(self.values),
            None if self.headers is None else column(self.headers),
        )

    def part(self, start: int, stop: int) -> "Fetched":
        """Return records `start` up to before `stop`, without the partitions' `ends` and `epochs`."""
        part = slice(start, stop)
        headers = None if self.headers is None else self.headers[part]
        return Fetched(
            self.places[part],
            self.offsets[part],
            self.timestamps[part],
            self.keys[part],
            self.values[part],
            headers if headers is not None and any(headers) else None,
        )

    def with_lists(self) -> "Fetched":
        """Return the records with lists of numbers in place of arrays, which are no JSON and equal no list."""
        if not isinstance(self.offsets, array):
            return self
        return replace(self, offsets=list(self.offsets), timestamps=list(self.timestamps))

    def first_offsets(self) -> dict[TopicPartition, int]:
        """Return the offset of the first record of each partition."""
        if isinstance(self.places, Repeated | Runs):
            return {place: self.offsets[start] for place, start, _ in reversed(_runs(self.places))}
        return dict(zip(reversed(self.places), reversed(self.offsets), strict=True))

    def size_bytes(self, start: int, stop: int) -> int:
        """Return the size of the values of records `start` up to before `stop`."""
        values = self.values[start:stop]
        return values.size_bytes if isinstance(values, BinaryColumn) else sum(map(len, filter(None, values)))

    def times_ms(self, start: int, stop: int, most: int) -> list[int]:
        """Return the timestamps of about `most` of these records."""
        step = -(-(stop - start) // most)
        return [each for each in self.timestamps[start:stop:step] if each is not None]

    def next_offsets(self) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition."""
        if isinstance(self.places, Repeated | Runs):
            return {place: self.offsets[stop - 1] + 1 for place, _, stop in _runs(self.places)}
        return {place: offset + 1 for place, offset in dict(zip(self.places, self.offsets, strict=True)).items()}


def _places(topics: list[str], partitions: list[int]) -> Sequence[TopicPartition]:
    """Return topics and partitions as one column. Records come in runs, often all from one partition."""
    if topics.count(topics[0]) < len(topics):
        places = {pair: TopicPartition(*pair) for pair in zip(topics, partitions, strict=True)}
        return [places[pair] for pair in zip(topics, partitions, strict=True)]
    if partitions.count(partitions[0]) == len(partitions):
        return Repeated(TopicPartition(topics[0], partitions[0]), len(partitions))
    of_partitions = {number: TopicPartition(topics[0], number) for number in set(partitions)}
    return list(map(of_partitions.__getitem__, partitions))


def last_epochs(places: Sequence[TopicPartition], messages: Sequence[Any]) -> dict[TopicPartition, tuple[int, int]]:
    """Return the leader epoch of each partition's last record, with the offset after it."""
    is_one = isinstance(places, Repeated)
    last = {places[-1]: messages[-1]} if is_one else dict(zip(places, messages, strict=True))
    epochs = {place: (message.offset() + 1, message.leader_epoch()) for place, message in last.items()}
    return {place: (totals, epoch) for place, (totals, epoch) in epochs.items() if epoch is not None}


def _runs(places: "Repeated[TopicPartition] | Runs[TopicPartition]") -> list[tuple[TopicPartition, int, int]]:
    if isinstance(places, Repeated):
        return [(places.value, 0, len(places))] if len(places) else []
    return [(p, end - count, end) for p, count, end in zip(places.values, places.counts, places.ends, strict=True)]


def _joined(columns: Sequence[Sequence[TopicPartition]]) -> Sequence[TopicPartition]:
    """Concatenate columns of places, with one value per run if all columns consist of runs."""
    counts: list[tuple[TopicPartition, int]] = []
    for column in columns:
        if not isinstance(column, Repeated | Runs):
            return list(chain.from_iterable(columns))
        for place, start, stop in _runs(column):
            before = counts.pop()[1] if counts and counts[-1][0] == place else 0
            counts.append((place, before + stop - start))
    if len(counts) == 1:
        return Repeated(*counts[0])
    return Runs([place for place, _ in counts], [count for _, count in counts]) if counts else ()


def _numbers_joined(columns: Sequence[Sequence[Any]]) -> Sequence[Any]:
    if not columns or not all(isinstance(column, array) for column in columns):
        return list(chain.from_iterable(columns))
    found = array("q")
    for column in columns:
        found.extend(column)
    return found


def _bytes_joined(columns: Sequence[Sequence[bytes | None]]) -> Sequence[bytes | None]:
    if columns and all(isinstance(column, Repeated) and column.value is None for column in columns):
        return Repeated(None, sum(map(len, columns)))
    found = [column if isinstance(column, BinaryColumn) else _nothing(column) for column in columns]
    if not found or any(column is None for column in found):
        return list(chain.from_iterable(columns))
    return BinaryColumn.joined([column for column in found if column is not None])


def _nothing(column: Sequence[bytes | None]) -> BinaryColumn | None:
    is_empty = isinstance(column, Repeated) and column.value is None
    return BinaryColumn.without_values(len(column)) if is_empty else None


def _times(kinds: Sequence[int], times: Sequence[int]) -> list[int | None]:
    return [_TIMES[kind](at_ms) for kind, at_ms in zip(kinds, times, strict=True)]


def is_plain(messages: Sequence[Any]) -> bool:
    """Return whether no message of the client is an event. An error is truthy; do not compare it, that raises."""
    return not any(map(Message.error, messages))
