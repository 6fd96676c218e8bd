"""Reads parts of a topic, with headers, to show them to people. Joins no group and commits nothing."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import MissingTopicError
from fencepost.kafka.read.range_input import RangeInput
from fencepost.kafka.read.record_columns import ALL, schema
from fencepost.kafka.value.log_range import LogRange
from fencepost.record import TopicPartition

_SMALLEST_WINDOW = 100
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


class TopicBrowser:
    """The records that one topic has when the browser is created. Later records are not included.

    Raises MissingTopicError if there is no such topic, and everything that `Admin` raises.
    """

    def __init__(self, conf: Mapping[str, Any], topic: str, *, timeout_s: float = 30.0) -> None:
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
            yield from self._read(partition, max(first, lowest), min(end, highest), key_bounds)

    def newest(self, most: int, is_wanted: Callable[[TopicRecord], bool]) -> list[TopicRecord]:
        """Return the newest wanted records of the topic, at most `most` of them, the oldest first.

        A log cannot be read backwards, so windows are read, the last one first, each twice as large as the one before.
        """
        found: list[TopicRecord] = []
        for partition, (lowest, end) in self.ranges.items():
            own: list[TopicRecord] = []
            size = max(most, _SMALLEST_WINDOW)
            while end > lowest and len(own) < most:
                first = max(lowest, end - size)
                own = [r for r in self._read(partition, first, end) if is_wanted(r)] + own
                end, size = first, size * 2
            found += own
        return sorted(found, key=lambda r: (r.timestamp_ms or 0, r.partition, r.offset))[-most:]

    def _read(
        self, partition: int, first: int, end: int, key_bounds: tuple[bytes, bytes] | None = None
    ) -> Iterator[TopicRecord]:
        wanted = LogRange(TopicPartition(self.topic, partition), first, end)
        read = RangeInput(self._conf, wanted, columns=schema(ALL), fails_on_loss=False, idle_s=self._timeout_s)
        for found in read.batches():
            batch = found if key_bounds is None else found.filter(_within(found["key"], *key_bounds))
            yield from map(_record, batch.set_column(5, _TIME, batch[_TIME].cast(pa.int64())).to_pylist())


def _within(keys: Any, beginning: bytes, end: bytes) -> Any:
    return pc.and_(pc.starts_with(keys, pattern=beginning), pc.ends_with(keys, pattern=end))


def _record(row: Mapping[str, Any]) -> TopicRecord:
    headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
    at_us = row[_TIME]
    at_ms = None if row["timestampType"] < 0 or at_us is None else at_us // 1_000
    return TopicRecord(row["partition"], row["offset"], at_ms, row["key"], row["value"], headers)
