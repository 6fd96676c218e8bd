"""Which transactions of a database were split over two of Kafka's, judged from the brokers' segment files."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.codec.encode_header import HEADER
from fencepost.kafka.read.log import LogReader, LogRecord

_CONTROL = 0x20
_FIRST_TWO = 12
"""Bytes of a batch that its length does not count."""


class Placed(NamedTuple):
    """A visible record, and which segment between two markers of its partition it is in, with that marker's time."""

    topic: str
    record: LogRecord
    segment: tuple[str, int]
    marked_ms: int


class Segments:
    """The transactions in a partition's segment files: where each ends, and when its marker was written."""

    def __init__(self, directory: Path, topic: str) -> None:
        self._topic = topic
        self._ends: dict[int, list[tuple[int, int]]] = {}  # of each producer: offsets and times of markers
        self._starts: list[tuple[int, int]] = []  # of each batch: its first offset, and its producer
        for file in sorted(directory.rglob(f"{topic}-0/*.log")):
            self._read(file.read_bytes())

    def place(self, record: LogRecord) -> Placed:
        _, producer = self._starts[bisect_right(self._starts, (record.offset, 1 << 62)) - 1]
        ends = self._ends[producer]
        marker, at_ms = ends[bisect_right(ends, (record.offset, 0))]
        return Placed(self._topic, record, (self._topic, marker), at_ms)

    def _read(self, data: bytes) -> None:
        at = 0
        while at + HEADER.size <= len(data):
            base, length, _, _, _, attributes, _, _, latest, producer, *_ = HEADER.unpack_from(data, at)
            if length <= 0:
                return
            if attributes & _CONTROL:
                self._ends.setdefault(producer, []).append((base, latest))
            else:
                self._starts.append((base, producer))
            at += _FIRST_TWO + length


def placed_records(kafka: EmbeddedKafka, topic: str) -> list[Placed]:
    """Return the visible records of a topic of one partition."""
    records: list[LogRecord] = []
    reader = LogReader({"bootstrap.servers": kafka.bootstrap_servers}, topic)
    try:
        reader.read_to_end(60, records.append)
    finally:
        reader.close()
    segments = Segments(kafka.directory, topic)
    return [segments.place(record) for record in records]


def split_transactions(whole: Mapping[int, Sequence[Placed]]) -> list[int]:
    """Return the transactions with records in two segments of a partition, or that were sent after a marker of one."""
    found = []
    for xid, records in whole.items():
        segments = {one.segment for one in records}
        latest = max(one.record.timestamp_ms for one in records)
        if len(segments) > len({topic for topic, _ in segments}) or latest > min(one.marked_ms for one in records):
            found.append(xid)
    return found
