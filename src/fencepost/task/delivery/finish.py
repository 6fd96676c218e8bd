"""The end of a transaction: the offsets and records that are added to it before its commit.

Source offsets may have to be committed in a group of the target (`OffsetsInGroup`); they are sent at the same time as
the records are flushed. A task may also add records that say where its own went (`MirrorTask.closing`), which is known
only once those are in the log. Both are part of the transaction (E1, E18).
"""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from fencepost.api import RecordMetadata, SourceRecord
from fencepost.hook.mirror import MirrorTask, OffsetsInGroup, Sent
from fencepost.kafka.group.memberless import memberless
from fencepost.kafka.value.position import FORGOTTEN, GroupOffset
from fencepost.kafka.value.whole import DeliveryCallback
from fencepost.record import Batch, Runs
from fencepost.task.delivery.outgoing import Outgoing
from fencepost.transaction import ProduceError, TransactionalWriter
from fencepost.transaction.input_fence import Signature

OffsetRecords = Sequence[tuple[bytes, bytes | None]]
Closing = Callable[[], Sequence[SourceRecord]]


Place = tuple[str, int | None]
_EVERY_S = 1.0


class LastSent:
    """The last record of each partition of one transaction: its source offset and, once delivered, where it went.

    The first record that is ever sent to a partition is recorded as well. Used by the task's thread; the committing
    thread calls `closing`, once the records are in the log.
    """

    def __init__(self, task: MirrorTask, known: set[Place] | None = None) -> None:
        """`known`: the partitions to which earlier transactions have sent records."""
        self._task = task
        self._known = set() if known is None else known
        self._first: dict[Place, _Last] = {}
        self._last: dict[Place, _Last] = {}
        self._asked_s = time.monotonic()
        self._new: dict[Place, _Last] = {}  # of the last ones, those that were delivered since `delivered`

    def successor(self) -> "LastSent":
        """Return where the records of the next transaction are recorded."""
        return LastSent(self._task, self._known)

    def callbacks_for(self, batch: Batch, outgoing: Outgoing) -> dict[int, DeliveryCallback]:
        """Add records that are about to be sent; returns the delivery callbacks of some of them, by index."""
        callbacks: dict[int, DeliveryCallback] = {}

        def sent(index: int, place: Place, new: dict[Place, _Last] | None = None) -> _Last:
            source = index if outgoing.sources is None else outgoing.sources[index]
            record = _Last(place, batch.source_partitions[source], batch.source_offsets[source], new)
            callbacks[index] = record.callback
            return record

        at_last = _last_indexes(outgoing)
        last = {place: sent(index, place, self._new) for place, index in at_last.items()}
        if unknown := last.keys() - self._known:
            self._known |= unknown
            first = _first_indexes(outgoing, unknown)
            self._first |= {
                place: last[place] if at == at_last[place] else sent(at, place) for place, at in first.items()
            }
        self._last |= last
        return callbacks

    def is_due(self, now_s: float) -> bool:
        """Return whether `delivered` is to be called; at most once a second."""
        is_due = now_s - self._asked_s >= _EVERY_S
        self._asked_s = now_s if is_due else self._asked_s
        return is_due

    def delivered(self) -> Sequence[SourceRecord]:
        """Return the records that the task adds for those that are in the log by now. For the task's thread."""
        first = [place for place, record in self._first.items() if record.metadata is not None]
        found = [self._first.pop(place) for place in first]
        found += [self._new.pop(place) for place in list(self._new) if place not in self._first]
        once = dict.fromkeys(found)  # a first record may be the last one, too
        sent = [Sent(each.partition, each.offset, each.metadata) for each in once if each.metadata is not None]
        return self._task.delivered(sent) if sent else ()

    def closing(self) -> Sequence[SourceRecord]:
        """Return the records that the task adds. Raises ProduceError if it is unknown where a record went."""
        if not self._last:
            return ()
        sent = []
        for last in dict.fromkeys((*self._first.values(), *self._last.values())):
            if last.metadata is None:
                topic, partition = last.place
                raise ProduceError(
                    f"the producer did not report the offset of the last record of {topic}-{partition}",
                    is_refused=False,
                )
            sent.append(Sent(last.partition, last.offset, last.metadata))
        return self._task.closing(sent)


def _last_indexes(outgoing: Outgoing) -> dict[Place, int]:
    topics, partitions = outgoing.topics, outgoing.partitions or ()
    if isinstance(topics, Runs) and isinstance(partitions, Runs) and topics.ends == partitions.ends:
        return {
            place: end - 1
            for place, end in zip(zip(topics.values, partitions.values, strict=True), topics.ends, strict=True)
        }
    return dict(zip(zip(topics, partitions, strict=False), range(len(outgoing)), strict=False))


def _first_indexes(outgoing: Outgoing, places: Collection[Place]) -> dict[Place, int]:
    found: dict[Place, int] = {}
    for index, place in enumerate(zip(outgoing.topics, outgoing.partitions or (), strict=False)):
        if place in places:
            found.setdefault(place, index)
    return found


@dataclass(slots=True, eq=False)
class _Last:
    place: Place
    partition: Any
    offset: Any
    new: "dict[Place, _Last] | None"  # where it is added once it is delivered
    metadata: RecordMetadata | None = None

    def callback(self, error: Any, message: Any) -> None:
        if error is None:
            self.metadata = RecordMetadata(
                message.topic(), message.partition(), message.offset(), message.timestamp()[1]
            )
            if self.new is not None:
                self.new[self.place] = self


class GroupPositions:
    """A connector's offsets as they are kept in a group."""

    def __init__(self, held: OffsetsInGroup) -> None:
        self.group = held.group
        self._held = held

    def parted(self, records: OffsetRecords) -> tuple[list[GroupOffset], list[tuple[bytes, bytes | None]]]:
        """Split offset records into those to commit in the group, and those that still go to the offsets topic.

        A transaction cannot remove an offset from a group, so a tombstone becomes an offset marked as forgotten.
        """
        offsets, others = [], []
        for key, value in records:
            partition = orjson.loads(key)[1]
            place = self._held.place(partition)
            if place is None:
                others.append((key, value))
            elif value is None:
                offsets.append(GroupOffset(*place, 0, FORGOTTEN))
            else:
                offsets.append(GroupOffset(*place, *self._held.position(partition, orjson.loads(value))))
        return offsets, others


@dataclass(frozen=True)
class OffsetPlaces:
    """Where offsets are committed: source offsets in a topic or in a group, positions of the input in its group."""

    topic: str
    group: GroupPositions | None
    signature: "Signature | None"  # signs positions of the input

    def finish(self, offsets: OffsetRecords, closing: Closing | None) -> tuple["Finish", OffsetRecords]:
        """Return the end of a transaction with these source offsets, and the offsets that are written to the topic."""
        if self.group is None:
            return Finish(closing), offsets
        positions, records = self.group.parted(offsets)
        return Finish(closing, positions, memberless(self.group.group)), records


def fields_of(record: SourceRecord) -> dict[str, Any]:
    """Return a client's arguments for a record that a task has added, without topic and value."""
    return {
        "key": record.key,
        "partition": record.kafka_partition,
        "timestamp": record.timestamp,
        "headers": [(header.key, header.value) for header in record.headers] or None,
    }


@dataclass(frozen=True)
class Finish:
    """The end of one transaction: records that are still to be sent, and offsets that are committed in a group.

    `check` raises if it must not be committed. The thread that commits asks, as a broker may have to answer.
    """

    closing: Closing | None = None
    offsets: Sequence[GroupOffset] = field(default=())
    group_metadata: Any = None
    signature: Signature | None = None
    check: Callable[[], None] | None = None

    def begin(self, writer: TransactionalWriter) -> None:
        """Start to add the group's offsets while the records are flushed: they are known, and wait for nothing."""
        if self.offsets:
            offsets = self.offsets if self.signature is None else self.signature.sign(writer, self.offsets)  # E20
            writer.begin_group_offsets(offsets, self.group_metadata)  # E18, E19

    def await_offsets(self, writer: TransactionalWriter) -> None:
        """Wait until the offsets are in the transaction."""
        if self.offsets:
            writer.await_group_offsets()

    def send(self, writer: TransactionalWriter) -> None:
        """Send the records that the task adds, and wait until they are in the log. The earlier records already are.

        Before, call `check`: the transaction after this one may be flushed meanwhile.
        """
        if self.check is not None:
            self.check()
        records = () if self.closing is None else self.closing()
        for record in records:
            writer.send(record.topic, record.value, **fields_of(record))
        if records:
            writer.flush()
