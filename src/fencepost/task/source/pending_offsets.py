"""The source offsets that the next commit writes."""

from collections.abc import Iterable

from fencepost.api import SourceTask
from fencepost.record import Batch, partition_key
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.delivery.delivery import offset_records
from fencepost.task.delivery.finish import OffsetRecords
from fencepost.task.source.acknowledged_offsets import AcknowledgedOffsets
from fencepost.task.source.offset_book import OffsetBook, checked_update


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
        """Let the author change what is about to be committed."""
        if self.updates:
            self.book.updated_by(checked_update(self._task.update_offsets(self.book.pending), self._spec.id))

    def records(self) -> OffsetRecords:
        """Return the records of the offsets topic."""
        return offset_records(self._spec, self.book.to_write(), self.book.spellings)

    def seal(self) -> None:
        """Assign them to a commit that has begun."""
        self.book.seal()
        self._has_ends = False
