"""Sends polled records, commits them with their offsets or aborts them, and calls `commit_record` and `commit`."""

import logging
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fencepost.api import RecordMetadata, SourceRecord, SourceTask
from fencepost.hook.hosted_task import HostedTask
from fencepost.record import Batch
from fencepost.task.delivery.delivery import Delivery, OnDelivered, PlainDelivery, TopicCreation
from fencepost.task.delivery.finish import LastSent
from fencepost.task.delivery.outgoing import Outgoing
from fencepost.task.source.boundary import Boundary
from fencepost.task.source.offsets import AcknowledgedOffsets, PendingOffsets
from fencepost.task.source.processing import Processor
from fencepost.task.start.run import Counters, CurrentDelivery, TaskRun


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
    """Calls the commit callbacks of one task instance."""

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
        """Call `commit_record` for the acknowledged records among those that a flush should have covered."""
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


@dataclass
class SourceSender:
    """Sends the records of one task instance. `last_sent` is None unless the task adds records to transactions."""

    run: TaskRun[Counters]
    processor: Processor
    topics: TopicCreation
    current: CurrentDelivery[Delivery]
    offsets: PendingOffsets
    callbacks: CommitCallbacks
    last_sent: LastSent | None

    def send(self, batches: Sequence[Batch], *, is_last: bool = False) -> bool:
        """Send `batches`; before the last ones of a transaction, its offsets. Returns whether the offsets were sent."""
        with self.run.tracing.step("convert"):
            processed = [(batch, self.processor.process(batch)) for batch in batches]
        ready = [(batch, self.run.tracing.stamped(outgoing)) for batch, outgoing in processed]
        for _, outgoing in ready:
            self.topics.ensure(outgoing.topics)
        if ready:
            self.current.ensure_ready()
        self.offsets.add(batches)
        is_covered = is_last and bool(ready) and not self.offsets.updates
        is_covered = is_covered and self.current.delivery.cover(self.offsets.records())
        for batch, outgoing in ready:
            self._send(batch, outgoing)
        if self.offsets.acknowledged is not None:
            self.offsets.acknowledged.relieve(self.current.delivery)
        return is_covered

    def begin(self) -> None:
        """Record the last records of another transaction from now on."""
        self.last_sent = None if self.last_sent is None else self.last_sent.successor()

    def _send(self, batch: Batch, outgoing: Outgoing) -> None:
        acknowledged, counters = self.offsets.acknowledged, self.run.counters
        queued = None if acknowledged is None else acknowledged.sent(batch, outgoing)
        if self.last_sent is not None:
            outgoing = replace(outgoing, callbacks=self.last_sent.callbacks_for(batch, outgoing))
        self.current.send(
            outgoing,
            lambda index: batch.record(index if outgoing.sources is None else outgoing.sources[index]).origin,
            self.callbacks.on_delivered(batch, outgoing, queued),
        )
        counters.sent(len(outgoing), outgoing.topics)
        if outgoing.letters is not None:  # E15
            counters.sent_dead_letters(len(outgoing.letters))
            self.current.delivery.send(outgoing.letters, queued)


log = logging.getLogger(__name__)


@dataclass
class SourceCommits:
    """The commits of one task instance. `runs_ahead`: the next batch is polled before the last one is committed."""

    run: TaskRun[Counters]
    boundary: Boundary
    current: CurrentDelivery[Delivery]
    offsets: PendingOffsets
    callbacks: CommitCallbacks
    sender: SourceSender
    runs_ahead: bool
    _last_flush_s: float = field(default_factory=time.monotonic)

    def commit(self, *, is_covered: bool = False) -> bool:
        """Commit the open transaction, if there is one. Returns False if the commit has to wait longer.

        `is_covered`: the offsets are in the transaction already.
        """
        offsets, callbacks = self.offsets, self.callbacks
        if offsets.acknowledged is not None:
            return not callbacks.is_cut_short and self._flush(offsets.acknowledged)
        if not callbacks.is_cut_short:
            offsets.update()
        if not self.current.delivery.is_open:
            if not offsets.are_due:
                offsets.book.drop_pending()
                if not offsets.book.is_committing:  # else the author would take it for the commit in progress
                    callbacks.committed()
                return True
            self.current.ensure_ready()  # offsets alone also begin a transaction
        begun_s, last_sent = time.monotonic(), self.sender.last_sent
        try:
            is_accepted = self.current.delivery.commit(
                () if is_covered else offsets.records(), None if last_sent is None else last_sent.closing
            )
        except Exception as error:
            self.current.commit_failed(error)
            raise
        if is_accepted:
            offsets.seal()
            callbacks.seal()
            self.sender.begin()
            self.run.commit_begun(begun_s)
            self.boundary.committed()
            self.current.learn(wait=not self.runs_ahead)
        return is_accepted

    def abort(self) -> None:
        """Drop the records of the transaction, and commit their offsets in a new one (KIP-618)."""
        if not self.current.delivery.is_open:
            log.warning("task %s asked to abort a transaction, but none is open; nothing is aborted", self.run.spec.id)
            return
        self.current.delivery.abort()
        self.sender.begin()
        self.run.counters.aborted()
        self.run.tracing.aborted()
        self.callbacks.aborted()
        self.commit()

    def flush_if_due(self) -> None:
        """Commit at the flush interval, or when the task asks for it, for a task that delivers at least once.

        A task that adds records says more often which ones are in the log.
        """
        self.run.counters.used_topics()
        now_s, delivery, last_sent = time.monotonic(), self.current.delivery, self.sender.last_sent
        interval_s = self.run.spec.commits.offset_flush_interval_ms / 1000
        if self.run.control.is_commit_asked or now_s - self._last_flush_s >= interval_s:
            self._last_flush_s = now_s
            self.run.control.is_commit_asked = not self.commit()
        elif last_sent is not None and isinstance(delivery, PlainDelivery) and last_sent.is_due(now_s):
            delivery.add(last_sent.delivered)

    def end_cleanly(self) -> bool:
        """Commit or abort the open transaction, as the boundary decides. Returns whether the instance may continue."""
        if not self.run.spec.is_exactly_once or self.boundary.should_commit_at_end():
            is_done = self.commit()
            self.current.learn(wait=True)
            return is_done
        if self.current.delivery.is_open or self.offsets.book.pending:
            self.current.delivery.abort()
            self.offsets.book.drop_pending()
            return False
        return True

    def _flush(self, offsets: AcknowledgedOffsets) -> bool:
        delivery = self.current.delivery
        begun_s, was_open = time.monotonic(), delivery.is_open
        try:
            flushed = offsets.flush(delivery)
        except Exception as error:
            self.current.commit_failed(error)
            raise
        if flushed.has_written or (flushed.is_whole and was_open):
            self.run.commit_begun(begun_s)
            self.run.committed(time.monotonic())
        if flushed.is_whole:  # else an author who acknowledges all polled records upstream would lose the rest
            self.callbacks.committed()
        else:
            self.callbacks.records_committed()
        return flushed.is_whole
