"""What belongs to a transaction besides its records: the last things before its commit.

Source offsets may have to be committed in a group of the target (`OffsetsInGroup`), and are on their way while the
records are. A task that wants to may add records that tell where its own went (`SourceTask.closing`), which is known
only when they are in the log. Both are part of the transaction (E1, E18).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from fencepost.api import OffsetsInGroup, RecordMetadata, Sent, SourceRecord, SourceTask
from fencepost.kafka.value.group_offset import FORGOTTEN, GroupOffset
from fencepost.kafka.value.placed import DeliveryCallback
from fencepost.record import Batch, Runs
from fencepost.task.outgoing import Outgoing
from fencepost.transaction import ProduceError, TransactionalWriter
from fencepost.transaction.signature import Signature

OffsetRecords = Sequence[tuple[bytes, bytes | None]]
Closing = Callable[[], Sequence[SourceRecord]]


class LastSent:
    """The last record of each partition of one transaction: what it was read as, and, once told, where it went.

    Used by the task's thread; `closing` by whoever commits, when the records are in the log.
    """

    def __init__(self, task: SourceTask) -> None:
        self._task = task
        self._last: dict[tuple[str, int | None], _Last] = {}

    def note(self, batch: Batch, outgoing: Outgoing) -> dict[int, DeliveryCallback]:
        """Note records that are about to be sent; returns what is to be called when some of them are, by index."""
        told: dict[int, DeliveryCallback] = {}
        for place, index in _last_indexes(outgoing).items():
            source = index if outgoing.sources is None else outgoing.sources[index]
            last = self._last[place] = _Last(batch.source_partitions[source], batch.source_offsets[source])
            told[index] = last.told
        return told

    def closing(self) -> Sequence[SourceRecord]:
        """Return the records that the task adds. Raises ProduceError where it is not known where a record went."""
        if not self._last:
            return ()
        sent = []
        for (topic, partition), last in self._last.items():
            if last.metadata is None:
                raise ProduceError(f"nobody told where the last record of {topic}-{partition} went", is_refused=False)
            sent.append(Sent(last.partition, last.offset, last.metadata))
        return self._task.closing(sent)


def _last_indexes(outgoing: Outgoing) -> dict[tuple[str, int | None], int]:
    """Return the index of the last record of each partition."""
    topics, partitions = outgoing.topics, outgoing.partitions or ()
    if isinstance(topics, Runs) and isinstance(partitions, Runs) and topics.ends == partitions.ends:
        return {
            place: end - 1
            for place, end in zip(zip(topics.values, partitions.values, strict=True), topics.ends, strict=True)
        }
    return dict(zip(zip(topics, partitions, strict=False), range(len(outgoing)), strict=False))


@dataclass(slots=True)
class _Last:
    partition: Any
    offset: Any
    metadata: RecordMetadata | None = None

    def told(self, error: Any, message: Any) -> None:
        if error is None:
            self.metadata = RecordMetadata(
                message.topic(), message.partition(), message.offset(), message.timestamp()[1]
            )


class GroupPositions:
    """A connector's offsets, as the group has them that keeps them."""

    def __init__(self, held: OffsetsInGroup) -> None:
        self.group = held.group
        self._held = held

    def parted(self, records: OffsetRecords) -> tuple[list[GroupOffset], list[tuple[bytes, bytes | None]]]:
        """Return what to commit in the group, and the records that go to the offsets topic all the same.

        A transaction can take no offset out of a group: what a tombstone forgets is marked so.
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


def fields_of(record: SourceRecord) -> dict[str, Any]:
    """Return what a client is given of a record that a task has added, beside topic and value."""
    return {
        "key": record.key,
        "partition": record.kafka_partition,
        "timestamp": record.timestamp,
        "headers": [(header.key, header.value) for header in record.headers] or None,
    }


@dataclass(frozen=True)
class Finish:
    """How one transaction ends: what is still to be sent, and what is committed in a group."""

    closing: Closing | None = None
    offsets: Sequence[GroupOffset] = field(default=())
    group_metadata: Any = None
    signature: Signature | None = None

    def begin(self, writer: TransactionalWriter) -> None:
        """Have the group's offsets added while the records are flushed: these are known, and wait for nothing."""
        if self.offsets:
            offsets = self.offsets if self.signature is None else self.signature.sign(writer, self.offsets)  # E20
            writer.begin_group_offsets(offsets, self.group_metadata)  # E18, E19

    def await_offsets(self, writer: TransactionalWriter) -> None:
        """Wait until the offsets are in the transaction."""
        if self.offsets:
            writer.await_group_offsets()

    def send(self, writer: TransactionalWriter) -> None:
        """Send what the task adds, and have it in the log. The records before are there already."""
        records = () if self.closing is None else self.closing()
        for record in records:
            writer.send(record.topic, record.value, **fields_of(record))
        if records:
            writer.flush()
