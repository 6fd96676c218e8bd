"""At-least-once offsets of a task that updates them (KIP-910): only acknowledged ones are committed.

The offsets of each source partition keep the order in which the task produced them. An offset is ready once every
record up to it is acknowledged. Offsets of filtered and dropped records, and updated ones, count as acknowledged: they
wait only for the records before them.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fencepost.api import RecordMetadata, SourceTask
from fencepost.record import Batch, PartitionKey, partition_key
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.delivery.delivery import Delivery, OnDelivered
from fencepost.task.delivery.finish import OffsetRecords
from fencepost.task.delivery.outgoing import Outgoing, OutgoingColumns
from fencepost.task.source.offset_book import Offset, OffsetBook, checked_update

_MOST_WAITING = 10_000
_NOTHING: Offset = {}  # by identity: a record without an offset changes none, but later offsets wait for it


class _Entry:
    __slots__ = ("is_acknowledged", "offset")

    def __init__(self, offset: Offset, *, is_acknowledged: bool) -> None:
        self.offset = offset
        self.is_acknowledged = is_acknowledged


class OffsetQueue:
    """The offsets that are not committed yet, by source partition. Used by the thread that flushes."""

    def __init__(self) -> None:
        self._entries: dict[PartitionKey, deque[_Entry]] = {}
        self.size = 0

    def sent(self, batch: Batch, outgoing: Outgoing) -> OnDelivered:
        """Add the records of a batch; returns the callback for each acknowledged record, by index.

        A dead letter stands for its record: it must be acknowledged, too (E15).
        """
        sent = range(len(batch)) if outgoing.sources is None else set(outgoing.sources)
        if outgoing.letters is not None:
            sent = {*sent, *(outgoing.letters.sources or ())}
        entries = [
            _Entry(_NOTHING if offset is None else dict(offset), is_acknowledged=index not in sent)
            for index, offset in enumerate(batch.source_offsets)
        ]
        last, key = None, partition_key({})
        for partition, entry in zip(batch.source_partitions, entries, strict=True):
            if partition is not last:  # usually it is the same
                last, key = partition, partition_key(partition)
            self._append(key, entry)
        self.updated({partition_key(p): None if offset is None else dict(offset) for p, offset in batch.ends})

        def acknowledged(index: int, metadata: RecordMetadata) -> None:
            entries[index].is_acknowledged = True

        return acknowledged

    def updated(self, update: Mapping[PartitionKey, Offset]) -> None:
        """Add offsets without a record: the result of `update_offsets`, or the ends of a batch."""
        for key, offset in update.items():
            self._append(key, _Entry(offset, is_acknowledged=True))

    def _append(self, key: PartitionKey, entry: _Entry) -> None:
        entries = self._entries.setdefault(key, deque())
        if entry.is_acknowledged and entries and entries[-1].is_acknowledged:
            if entry.offset is not _NOTHING:
                entries[-1].offset = entry.offset  # both wait for the same record
            return
        entries.append(entry)
        self.size += 1

    def ready(self) -> dict[PartitionKey, Offset]:
        """Take the newest offset of each source partition with no unacknowledged record before it."""
        found: dict[PartitionKey, Offset] = {}
        for key, entries in tuple(self._entries.items()):
            while entries and entries[0].is_acknowledged:
                offset = entries.popleft().offset
                self.size -= 1
                if offset is not _NOTHING:
                    found[key] = offset
            if not entries:
                del self._entries[key]
        return found


class Flushed(NamedTuple):
    """The result of a flush. `is_whole`: all records and offsets are acknowledged; `has_written`: some offsets are."""

    is_whole: bool
    has_written: bool


class AcknowledgedOffsets:
    """Commits the offsets of one task instance. Used by the task's thread."""

    def __init__(
        self, spec: TaskSpec, task: SourceTask, book: OffsetBook, to_write: Callable[[], OffsetRecords]
    ) -> None:
        """`to_write` returns the records for the book's pending offsets."""
        self._spec = spec
        self._task = task
        self._book = book
        self._to_write = to_write
        self._queue = OffsetQueue()

    def sent(self, batch: Batch, outgoing: Outgoing) -> OnDelivered:
        """Add the records of a batch; returns the callback for each acknowledged record, by index."""
        return self._queue.sent(batch, outgoing)

    def relieve(self, delivery: Delivery) -> None:
        """Wait for acknowledgements if very many are missing: the next flush may be far away."""
        if self._queue.size > _MOST_WAITING:
            _flushed(delivery)
            self._book.updated_by(self._queue.ready())

    def flush(self, delivery: Delivery) -> Flushed:
        """Wait for acknowledgements, ask the task for updates, and write the offsets that are ready.

        If something is not acknowledged in time, a later call continues. A slow topic delays only its own source
        partitions.
        """
        is_whole = _flushed(delivery)
        self._book.updated_by(self._queue.ready())
        self._queue.updated(checked_update(self._task.update_offsets(self._book.pending), self._spec.id))
        self._book.updated_by(self._queue.ready())
        if not self._book.has_changes:
            self._book.drop_pending()
            return Flushed(is_whole, has_written=False)
        has_written = self._write(delivery)
        return Flushed(is_whole and has_written, has_written)

    def _write(self, delivery: Delivery) -> bool:
        """Return whether every offset is acknowledged; if not, the next flush writes all of them again."""
        records = self._to_write()
        acknowledged: list[int] = []

        def delivered(index: int, _: Any) -> None:
            acknowledged.append(index)

        topics = [self._spec.output.offsets_topic] * len(records)
        delivery.send(OutgoingColumns(topics, [value for _, value in records], [key for key, _ in records]), delivered)
        _flushed(delivery)
        if len(acknowledged) < len(records):
            return False
        self._book.seal()
        self._book.committed()
        return True


def _flushed(delivery: Delivery) -> bool:
    """Say whether everything sent is acknowledged within `offset.flush.timeout.ms`."""
    is_whole = delivery.commit(())
    delivery.finished()  # discard it: it is no commit of the task
    return is_whole
