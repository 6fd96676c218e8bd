"""Reads committed records of a partition together with what their batches say about the producer."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from fencepost.api.errors import FatalError
from fencepost.kafka.codec.committed import FetchedBatch
from fencepost.kafka.codec.decode_columns import decoded_columns
from fencepost.kafka.codec.encode_header import HEADER, SEQUENCES
from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.kafka.read.batch_reader import BatchReader
from fencepost.kafka.read.fetched_queue import Unread, UnreadFetched
from fencepost.kafka.value.position import LogPosition
from fencepost.record import HeaderBytes, TopicPartition

_MOST = 100_000
_SILENT_S = 60.0


@dataclass(frozen=True, slots=True)
class Produced:
    """Records whose offsets and sequences both increase by one.

    `producer` is an id and an epoch; the id is -1 for a producer without, and `sequence` then means nothing. `values`
    and `keys` are Arrow arrays, `headers` is None if no record has any.
    """

    producer: tuple[int, int]
    sequence: int
    offset: int
    values: Any
    keys: Any
    headers: Sequence[Sequence[HeaderBytes]] | None

    def part(self, start: int, stop: int) -> "Produced":
        """Return records `start` up to before `stop`."""
        return Produced(
            self.producer,
            (self.sequence + start) % SEQUENCES,
            self.offset + start,
            self.values[start:stop],
            self.keys[start:stop],
            None if self.headers is None else self.headers[start:stop],
        )

    def __len__(self) -> int:
        return len(self.values)


def read_produced(conf: Mapping[str, Any], place: TopicPartition, start: int, end: int) -> Iterator[Produced]:
    """Yield the committed records from offset `start` up to before `end`, in order; `conf` is made by `range_conf`.

    Raises CorruptBatchError for a batch that does not match its checksum, FatalError for one from before Kafka 0.11,
    KafkaUnavailableError if nothing arrives for a minute, and what BatchReader raises.
    """
    with closing(BatchReader(conf, Unread(), doing="an audit")) as reader:
        reader.assign({place: LogPosition(start)})
        at, heard_s = start, time.monotonic()
        while at < end:
            read = reader.read(1.0, _MOST)
            found = read.fetched
            sent = [each.sent for _, each in found.entries] if isinstance(found, UnreadFetched) else []
            new = max(found.ends.get(place, at), sent[-1].head.last + 1 if sent else at)
            if new > at:
                at, heard_s = new, time.monotonic()
            elif time.monotonic() - heard_s > _SILENT_S or read.lost:
                raise KafkaUnavailableError(f"{place.topic}-{place.partition} cannot be read from offset {at} on")
            yield from _within(_pieces(sent), start, end)


def _within(pieces: Iterator[Produced], start: int, end: int) -> Iterator[Produced]:
    for piece in pieces:
        first, stop = max(0, start - piece.offset), min(len(piece), end - piece.offset)
        if (first, stop) == (0, len(piece)):
            yield piece
        elif first < stop:
            yield piece.part(first, stop)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Rows of decoded batches that form a piece."""

    producer: tuple[int, int]
    sequence: int
    offset: int
    row: int
    count: int

    def continues(self, other: "_Stretch") -> bool:
        """Return whether this comes directly after `other`."""
        is_next = self.offset == other.offset + other.count
        return (
            is_next
            and self.producer == other.producer
            and (self.sequence == (other.sequence + other.count) % SEQUENCES or self.producer[0] < 0)
        )


def _pieces(sent: Sequence[FetchedBatch]) -> Iterator[Produced]:
    """Decode batches together, and yield their records in pieces that are as long as possible."""
    if any(each.head.is_old for each in sent):
        raise FatalError("The log has batches from before Kafka 0.11, which cannot be attributed to a producer")
    sent = [each for each in sent if each.head.records]
    if not sent:
        return
    columns = decoded_columns([each.view for each in sent])
    stretches: list[_Stretch] = []
    row = 0
    for batch in sent:
        for stretch in _stretches(batch, row, columns.offsets):
            last = stretches[-1] if stretches else None
            if last is not None and stretch.continues(last):
                stretches[-1] = replace(last, count=last.count + stretch.count)
            else:
                stretches.append(stretch)
        row += batch.head.records
    for each in stretches:
        rows = slice(each.row, each.row + each.count)
        headers = None if columns.headers is None else columns.headers[rows]
        yield Produced(each.producer, each.sequence, each.offset, columns.values[rows], columns.keys[rows], headers)


def _stretches(sent: FetchedBatch, row: int, offsets: Any) -> Iterator[_Stretch]:
    """Yield the rows of a batch in stretches without gaps: compaction removes records from the middle of one."""
    head = sent.head
    *_, producer_id, epoch, sequence, count = HEADER.unpack_from(sent.view)
    producer = producer_id, epoch
    if count == head.last - head.first + 1:
        yield _Stretch(producer, sequence, head.first, row, count)
        return
    own = offsets[row : row + count].to_pylist()
    begin = 0
    for at in range(1, count + 1):
        if at == count or own[at] != own[at - 1] + 1:
            first = own[begin]
            yield _Stretch(producer, (sequence + first - head.first) % SEQUENCES, first, row + begin, at - begin)
            begin = at
