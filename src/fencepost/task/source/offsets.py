"""Source offsets of a task: the committed ones, the acknowledged ones, and those that the next commit writes."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from fencepost.api import FatalError, RecordMetadata, SourceTask
from fencepost.record import Batch, PartitionKey, is_same, partition_key
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.delivery.delivery import Delivery, OnDelivered, offset_records
from fencepost.task.delivery.finish import OffsetRecords
from fencepost.task.delivery.outgoing import Outgoing, OutgoingColumns

Offset = Mapping[str, Any] | None


class OffsetBook:
    """Offsets in the order in which the task produced them (E7). One thread."""

    def __init__(
        self,
        committed: Iterable[tuple[Mapping[str, Any], Offset]] = (),
        spellings: Mapping[bytes, bytes] = MappingProxyType({}),
    ) -> None:
        """`spellings` maps our key bytes of a partition to those that the topic has for it."""
        self.spellings = spellings
        self._committed: dict[PartitionKey, Offset] = {partition_key(p): o for p, o in committed}
        self._own: dict[PartitionKey, Offset] = {}  # what this incarnation committed; None: it removed the offset
        self._pending: dict[PartitionKey, Offset] = {}
        self._sealed: deque[dict[PartitionKey, Offset]] = deque()
        self._partitions: dict[PartitionKey, Mapping[str, Any]] = {}

    def add(self, offsets: Iterable[tuple[Mapping[str, Any], Offset]]) -> None:
        """Add the position that the task has reached with records sent, filtered or dropped."""
        for partition, offset in offsets:
            if offset is None:
                continue
            if not (isinstance(offset, Mapping) and isinstance(partition, Mapping)):
                name, value = (
                    ("source_offset", offset) if isinstance(partition, Mapping) else ("source_partition", partition)
                )
                raise FatalError(
                    f"the {name} of a record is {value!r}, which is no mapping: give it a name, such as "
                    f"{{'position': {value!r}}}; `context.offset` returns the same mapping at the next start"
                )
            key = partition_key(partition)
            self._pending[key] = dict(offset)  # the author may change the original
            self._partitions[key] = partition

    def updated_by(self, update: Mapping[PartitionKey, Offset]) -> None:
        """Merge the checked result of `update_offsets` (KIP-910), or removals; unchanged offsets are left out."""
        for key, offset in update.items():
            if key in self._pending or self._is_change(key, offset):
                self._pending[key] = offset
                self._partitions.setdefault(key, dict(key))

    def _is_change(self, key: PartitionKey, offset: Offset) -> bool:
        """Say whether an offset will differ from the committed one after the commits in progress.

        A tombstone does so once even if no offset is known: another task may have committed what it removes.
        """
        for made in (*reversed(self._sealed), self._own, self._committed):
            if key in made:
                return not is_same(made[key], offset)
        return True

    @property
    def has_changes(self) -> bool:
        """Say whether the pending offsets would change committed ones."""
        return any(self._is_change(key, offset) for key, offset in self._pending.items())

    @property
    def pending(self) -> Mapping[PartitionKey, Offset]:
        """Return a read-only view, including the offsets' values, of what the next commit would write now."""
        return MappingProxyType({k: None if o is None else MappingProxyType(o) for k, o in self._pending.items()})

    def to_write(self) -> list[tuple[Mapping[str, Any], Offset]]:
        return [(self._partitions[key], offset) for key, offset in self._pending.items()]

    def seal(self) -> None:
        """Assign the pending offsets to a commit that has begun."""
        self._sealed.append(self._pending)
        self._pending = {}

    @property
    def is_committing(self) -> bool:
        """Say whether a commit has begun whose outcome is not known yet."""
        return bool(self._sealed)

    def committed(self) -> None:
        """Record that the oldest commit begun has succeeded."""
        made = self._sealed.popleft()
        self._own.update(made)
        for key, offset in made.items():
            if offset is None:
                self._committed.pop(key, None)
            else:
                self._committed[key] = offset

    def drop_pending(self) -> None:
        self._pending.clear()

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any]:
        """Return the committed offset of a source partition; empty if it has none."""
        return dict(self._committed.get(partition_key(partition)) or {})

    def all_committed(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return [(dict(key), dict(offset)) for key, offset in self._committed.items() if offset is not None]

    def differs_from(self, stored: Iterable[tuple[Mapping[str, Any], Offset]]) -> bool:
        """Say whether stored offsets differ from what this task committed for the same partitions."""
        found = {partition_key(p): o for p, o in stored}
        return any(not is_same(found.get(key), offset) for key, offset in self._own.items())


def checked_update(update: Any, task: str) -> dict[PartitionKey, Offset]:
    """Return the result of a task's `update_offsets` as the book keeps it: sorted keys, copies of the offsets.

    None and an empty map give an empty one: they change nothing. Raises FatalError, which says what to return.
    """
    if update is None:
        return {}
    if not isinstance(update, Mapping):
        raise FatalError(f"update_offsets of task {task} returned {type(update).__name__}; {_EXPECTED}")
    found: dict[PartitionKey, Offset] = {}
    for key, offset in update.items():
        try:
            checked = partition_key(dict(key))
        except (TypeError, ValueError):
            raise FatalError(
                f"update_offsets of task {task} returned the source partition {key!r}; {_EXPECTED}"
            ) from None
        if not isinstance(offset, Mapping | None):
            raise FatalError(f"update_offsets of task {task} returned {offset!r} for {dict(key)}; {_EXPECTED}")
        found[checked] = None if offset is None else dict(offset)
    return found


_EXPECTED = (
    "return None, or a mapping of source partitions, each as the tuple of its items, to source offsets "
    "(None removes the offset)"
)


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


class PendingOffsets:
    """The book of one task instance, and the changes that its author makes before each commit (KIP-910)."""

    def __init__(self, spec: TaskSpec, task: SourceTask, book: OffsetBook) -> None:
        self._spec = spec
        self._task = task
        self.book = book
        self.updates = type(task).update_offsets is not SourceTask.update_offsets
        self.acknowledged: AcknowledgedOffsets | None = None
        """Keeps the offsets in place of the book, at least once, if the author updates them."""
        if self.updates and not spec.is_exactly_once:
            self.acknowledged = AcknowledgedOffsets(spec, task, book, self.records)
        self._has_ends = False  # a batch had end positions of source partitions: they are committed even if unchanged

    @property
    def are_due(self) -> bool:
        """Say whether they are to be committed even if no record is."""
        return self.book.has_changes or self._has_ends

    def add(self, batches: Iterable[Batch]) -> None:
        """Add the offsets of records that are about to be sent, or were filtered or dropped."""
        if self.acknowledged is None:
            for batch in batches:
                self.book.add(batch.last_offsets())
                self.book.updated_by({partition_key(p): None for p, offset in batch.ends if offset is None})
                self._has_ends |= bool(batch.ends)

    def update(self) -> None:
        """Let the author change the offsets that are about to be committed."""
        if self.updates:
            self.book.updated_by(checked_update(self._task.update_offsets(self.book.pending), self._spec.id))

    def records(self) -> OffsetRecords:
        """Return the records of the offsets topic."""
        return offset_records(self._spec, self.book.to_write(), self.book.spellings)

    def seal(self) -> None:
        """Assign them to a commit that has begun."""
        self.book.seal()
        self._has_ends = False
