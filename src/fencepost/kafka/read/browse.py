"""Reads parts of a topic, with headers, to show them to people. Joins no group and commits nothing."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import ASK_S, MissingTopicError
from fencepost.kafka.read.range_input import RangeInput
from fencepost.kafka.read.record_columns import ALL, schema
from fencepost.kafka.value.position import LogRange
from fencepost.record import TopicPartition

_SMALLEST_WINDOW, _LARGEST_WINDOW = 100, 20_000
_WIDER = 4  # times as many offsets, where they have fewer records
_UNLIMITED = 1 << 62
_TIME = "timestamp"
_UNKNOWN_TOPIC = 3  # Kafka's code


class TopicRecord(NamedTuple):
    """A record as it is in Kafka."""

    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


Range = tuple[int, int]  # from an offset, to one that is excluded
Read = Callable[[Mapping[int, Range]], Iterator[TopicRecord]]


@dataclass
class Effort:
    """How many records, how many bytes and until when may be read, before the reading ends with what it has."""

    records: int = _UNLIMITED
    size_bytes: int = _UNLIMITED
    until_s: float = float("inf")

    @property
    def is_spent(self) -> bool:
        return self.records <= 0 or self.size_bytes <= 0 or self.is_late

    @property
    def is_late(self) -> bool:
        return time.monotonic() >= self.until_s

    def part(self, parts: int) -> "Effort":
        """Return one of so many equal parts."""
        return Effort(self.records // parts, self.size_bytes // parts, self.until_s)

    def at_most(self, other: "Effort") -> "Effort":
        return replace(
            self, records=min(self.records, other.records), size_bytes=min(self.size_bytes, other.size_bytes)
        )

    def spend(self, records: int, size_bytes: int) -> None:
        self.records -= records
        self.size_bytes -= size_bytes


def size_of(record: TopicRecord) -> int:
    """Return how many bytes a record holds."""
    headers = sum(len(name) + len(data or b"") for name, data in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


def backwards(
    read: Read, partition: int, range_: Range, size: int, effort: Effort, *, is_obliged: bool = False
) -> Iterator[tuple[int, list[TopicRecord]]]:
    """Yield windows of a partition, the last one first, which has `size` offsets: where each starts, and its records.

    A log cannot be read backwards. Ends when the `effort`, from which is taken what is read, is spent. A window that
    turns out to be too large is given up for a smaller one: its first records are not the newest. `is_obliged`: at
    least one record is read, however little effort is left, as nobody would get any further otherwise.
    """
    first, end = range_
    at, record_bytes = end, 0
    while at > first:
        is_spent = effort.is_spent or effort.size_bytes < record_bytes
        if is_spent and not (is_obliged and at == end):
            return
        size = 1 if is_spent else size
        start = max(first, at - size)
        records, is_whole = _window(read({partition: (start, at)}), at, effort)
        size_bytes = sum(map(size_of, records))
        effort.spend(len(records), size_bytes)
        record_bytes = size_bytes // max(1, len(records))
        if not is_whole:
            size = max(1, len(records) // 2)
            continue
        yield start, records
        at = start
        likely_most = effort.size_bytes // 2 * size // max(1, size_bytes)
        most = effort.records * size // max(1, len(records))
        size = max(1, min(size * _WIDER, likely_most, most, _LARGEST_WINDOW))


def _window(found: Iterator[TopicRecord], end: int, effort: Effort) -> tuple[list[TopicRecord], bool]:
    records: list[TopicRecord] = []
    size_bytes, most_bytes = 0, effort.size_bytes // 2
    for record in found:
        records.append(record)
        size_bytes += size_of(record)
        is_long = len(records) > effort.records or size_bytes > most_bytes or effort.is_late
        if is_long and record.offset + 1 < end:
            return records, False
    return records, True


class TopicBrowser:
    """The records that one topic has when the browser is created. Later records are not included.

    Raises MissingTopicError if there is no such topic, and everything that `Admin` raises.
    """

    def __init__(self, conf: Mapping[str, Any], topic: str, *, timeout_s: float = ASK_S) -> None:
        """`conf` is made by `range_conf`."""
        self.topic = topic
        self._conf = conf
        self._timeout_s = timeout_s
        with closing(Admin(conf, timeout_s=timeout_s)) as admin:
            partitions = admin.topics.partitions(topic)
            if partitions is None:
                raise MissingTopicError(
                    f"There is no topic {topic} (bootstrap.servers={conf.get('bootstrap.servers')})", _UNKNOWN_TOPIC
                )
            places = [(topic, partition) for partition in range(partitions)]
            starts, ends = admin.offsets.starts(places), admin.offsets.ends(places, read_committed=True)
        self.ranges: dict[int, Range] = {place[1]: (starts[place], ends[place]) for place in places}
        """The offsets that can be read, by partition."""

    def read(self, ranges: Mapping[int, Range], key_bounds: tuple[bytes, bytes] | None = None) -> Iterator[TopicRecord]:
        """Yield the records of these ranges, one partition after another. Offsets that do not exist are left out.

        `key_bounds`: only records whose keys begin and end with these bytes. That is faster than to look at all.

        Raises what `RangeInput` raises, but no error for records that were deleted in the meantime.
        """
        for partition, (first, end) in sorted(ranges.items()):
            lowest, highest = self.ranges[partition]
            wanted = LogRange(TopicPartition(self.topic, partition), max(first, lowest), min(end, highest))
            reader = RangeInput(self._conf, wanted, columns=schema(ALL), fails_on_loss=False, idle_s=self._timeout_s)
            for found in reader.batches():
                batch = found if key_bounds is None else found.filter(_within(found["key"], *key_bounds))
                yield from map(_record, batch.set_column(5, _TIME, batch[_TIME].cast(pa.int64())).to_pylist())

    def newest(self, most: int, is_wanted: Callable[[TopicRecord], bool]) -> list[TopicRecord]:
        """Return the newest wanted records of the topic, at most `most` of them, the oldest first."""
        found: list[TopicRecord] = []
        for partition, range_ in self.ranges.items():
            own: list[TopicRecord] = []
            for _, records in backwards(self.read, partition, range_, max(most, _SMALLEST_WINDOW), Effort()):
                own = [*filter(is_wanted, records), *own]
                if len(own) >= most:
                    break
            found += own
        return sorted(found, key=lambda r: (r.timestamp_ms or 0, r.partition, r.offset))[-most:]


def _within(keys: Any, beginning: bytes, end: bytes) -> Any:
    return pc.and_(pc.starts_with(keys, pattern=beginning), pc.ends_with(keys, pattern=end))


def _record(row: Mapping[str, Any]) -> TopicRecord:
    headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
    at_us = row[_TIME]
    at_ms = None if row["timestampType"] < 0 or at_us is None else at_us // 1_000
    return TopicRecord(row["partition"], row["offset"], at_ms, row["key"], row["value"], headers)
