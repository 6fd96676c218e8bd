"""Calls of the author's `commit_record` and `commit`."""

from collections import deque
from dataclasses import dataclass

from fencepost.api import RecordMetadata, SourceRecord, SourceTask
from fencepost.api.hosted_task import HostedTask
from fencepost.record import Batch
from fencepost.task.delivery.delivery import OnDelivered
from fencepost.task.delivery.outgoing import Outgoing


@dataclass(slots=True)
class _Delivered:
    """A record for which `commit_record` is called once it is committed."""

    record: SourceRecord
    is_sent: bool
    metadata: RecordMetadata | None = None


@dataclass(slots=True)
class _DeliveredBatch:
    """A batch of a hosted task, for which `written` is called once it is committed."""

    sent: int
    """How many of its records were sent: as many have a place once they are acknowledged."""
    places: list[RecordMetadata | None] | None
    is_aborted: bool = False

    @property
    def is_acknowledged(self) -> bool:
        return self.places is not None and len(self.places) - self.places.count(None) == self.sent


class CommitCallbacks:
    """Tells one task instance what is committed."""

    def __init__(self, task: SourceTask) -> None:
        self._task = task
        self._tracks_records = type(task).commit_record is not SourceTask.commit_record
        self._delivered: list[_Delivered] = []
        self._batches: deque[_DeliveredBatch] = deque()
        self._sealed: deque[deque[_DeliveredBatch]] = deque()
        self.is_cut_short = False
        """Whether a polled batch was not sent. `commit` is not called any more: an author who acknowledges all polled
        records upstream would lose it."""

    def on_delivered(self, batch: Batch, outgoing: Outgoing, queued: OnDelivered | None) -> OnDelivered | None:
        """Return the callback for each acknowledged record, or None if nothing needs it. It also calls `queued`."""
        if isinstance(self._task, HostedTask):
            return self._on_batch_delivered(self._task, batch, outgoing, queued)
        if not self._tracks_records:
            return queued
        sent = range(len(batch)) if outgoing.sources is None else set(outgoing.sources)
        records = [_Delivered(record, index in sent) for index, record in enumerate(batch.records())]
        self._delivered.extend(records)

        def delivered(index: int, metadata: RecordMetadata) -> None:
            if queued is not None:
                queued(index, metadata)
            records[index].metadata = metadata

        return delivered

    def _on_batch_delivered(
        self, task: HostedTask, batch: Batch, outgoing: Outgoing, queued: OnDelivered | None
    ) -> OnDelivered | None:
        if not task.asks_places:
            self._batches.append(_DeliveredBatch(len(outgoing), None))
            return queued
        places: list[RecordMetadata | None] = [None] * len(batch)
        self._batches.append(_DeliveredBatch(len(outgoing), places))

        def delivered(index: int, metadata: RecordMetadata) -> None:
            if queued is not None:
                queued(index, metadata)
            places[index] = metadata

        return delivered

    def seal(self) -> None:
        """Assign the batches sent so far to a commit that has begun: others may be sent before it has ended."""
        self._sealed.append(self._batches)
        self._batches = deque()

    def committed(self) -> None:
        """Tell of the oldest commit that has begun; without one, of a flush that covers everything sent before it."""
        self._tell_records(self._sealed.popleft() if self._sealed else self._batches, is_whole=True)
        if not self.is_cut_short:
            self._task.commit()

    def records_committed(self) -> None:
        """Tell of the records that are acknowledged, of those that a flush was to cover."""
        self._tell_records(self._batches, is_whole=False)

    def aborted(self) -> None:
        """Count the records sent as not sent: only their offsets will be committed."""
        self._delivered = [_Delivered(one.record, is_sent=False) for one in self._delivered]
        for each in self._batches:
            each.is_aborted = True

    def _tell_records(self, batches: deque[_DeliveredBatch], *, is_whole: bool) -> None:
        delivered, self._delivered = self._delivered, []
        for one in delivered:
            if one.is_sent and one.metadata is None:
                self._delivered.append(one)  # not acknowledged yet; only happens if a flush took too long
            else:
                self._task.commit_record(one.record, one.metadata)
        while batches and (is_whole or batches[0].is_acknowledged):
            first = batches.popleft()
            assert isinstance(self._task, HostedTask)
            self._task.written(() if first.is_aborted else first.places)
