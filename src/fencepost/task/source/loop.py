"""The loop of one source task: poll, transform, convert and produce, and commit at a boundary.

This is step 8 of docs/architecture.md.

A delivery may commit in the background. The loop then polls, converts and sends the next batch in the meantime, unless
the author acts on commits. It learns on its next turn what was committed, or failed.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from fencepost.api import RecordMetadata, RetriableError, SourceRecord, SourceTask
from fencepost.api.mirror_task import MirrorTask, adds_records
from fencepost.kafka.setting.client_settings import most_record_bytes
from fencepost.record import Batch
from fencepost.task.channel.message import RunState
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control
from fencepost.task.delivery.delivery import Delivery, OnDelivered, offset_records
from fencepost.task.delivery.finish import LastSent, OffsetRecords
from fencepost.task.delivery.outgoing import Outgoing
from fencepost.task.delivery.too_large import with_its_place
from fencepost.task.delivery.topic_creation import TopicCreation
from fencepost.task.failure.tolerance import StoppedInRetryError
from fencepost.task.life.counters import Counters
from fencepost.task.source.acknowledged_offsets import AcknowledgedOffsets
from fencepost.task.source.boundary import Boundary, BoundaryDecision, ConnectorBoundary
from fencepost.task.source.offset_book import OffsetBook, checked_update
from fencepost.task.source.processing import Processor
from fencepost.transaction import ProduceError

log = logging.getLogger(__name__)

_IDLE_POLL_S = 0.001
_IDLE_WAIT_S = 0.01
_RETRY_POLL_S = 0.1


class LoopEnd(Enum):
    """Why a loop returned without an error."""

    STOPPED = auto()
    DISCARDED = auto()  # the task instance is ahead of what is committed: start a new one


@dataclass
class SourceLoop:
    """Runs one task instance.

    `replace` retires a struck delivery and returns its admitted successor (E5); `report_state` tells the worker of a
    change of state. `runs_ahead`: the next batch is polled before the last one is committed.
    """

    spec: TaskSpec
    task: SourceTask
    processor: Processor
    boundary: Boundary
    control: Control
    book: OffsetBook
    counters: Counters
    replace: Callable[[], Delivery]
    report_state: Callable[[RunState], None]
    topics: TopicCreation
    runs_ahead: bool = False
    _last_flush: float = field(default_factory=time.monotonic)
    _delivered: list["_Delivered"] = field(default_factory=list)
    _has_failed: bool = False
    _has_ends: bool = False  # a batch had end positions of source partitions: they are committed even if unchanged
    _is_cut_short: bool = False  # a polled batch was not sent: the author's `commit` is not called any more

    def __post_init__(self) -> None:
        self._tracks_records = type(self.task).commit_record is not SourceTask.commit_record
        self._updates_offsets = type(self.task).update_offsets is not SourceTask.update_offsets
        self._polls_late = isinstance(self.task, MirrorTask) and self.task.polls_late
        self._last_sent = self._none_sent()
        self._acknowledged: AcknowledgedOffsets | None = None
        if self._updates_offsets and not self.spec.is_exactly_once:
            self._acknowledged = AcknowledgedOffsets(self.spec, self.task, self.book, self._offsets)

    def run(self, delivery: Delivery) -> LoopEnd:
        """Move data until asked to stop. Errors of the task, of conversion and of Kafka propagate."""
        self._delivery = delivery
        try:
            return self._run()
        except BaseException:
            self._learn(wait=True)  # if a commit has failed, its error is the cause, and decides what happens next
            raise
        finally:
            self.counters.dropped()

    def _run(self) -> LoopEnd:
        try:
            ending = self._take_turns()
        except StoppedInRetryError as error:
            log.info("task %s stops before the batch that it was processing is sent: %s", self.spec.id, error)
            self._is_cut_short = True
            ending = LoopEnd.STOPPED
        if ending is LoopEnd.STOPPED:
            if not self._delivery.must_be_replaced:  # else nothing is open, and a needless start would fence others
                self._ends_cleanly()
            self._learn(wait=True)
        return ending

    def _take_turns(self) -> LoopEnd:
        while not self.control.is_stopping:
            if self._delivery.must_be_replaced:
                self._replace()
            self._learn(wait=False)
            if not self.control.is_paused:
                self._turn()
            elif self._ends_cleanly():
                self._stay_paused()
            else:
                return LoopEnd.DISCARDED
        return LoopEnd.STOPPED

    def _maybe_replace(self) -> None:
        if not self._delivery.is_ready():
            self._replace()

    def _replace(self) -> None:
        self._learn(wait=True)
        self._delivery = self.replace()

    def _learn(self, *, wait: bool) -> None:
        """Handle the commits that have ended. Raises the error of a failed one, after all before it are handled."""
        while ended_s := self._finished(wait):
            for one_s in ended_s:
                self.book.committed()
                self.counters.committed(one_s)
                self._tell_committed()

    def _finished(self, is_waited_for: bool) -> Sequence[float]:
        try:
            return self._delivery.finished(wait=is_waited_for)
        except BaseException:
            self._commit_failed()
            raise

    def _commit_failed(self) -> None:
        """Count the failure once: later transactions fail with it."""
        if not self._has_failed:
            self._has_failed = True
            self.counters.commit_failed()

    def _turn(self) -> None:
        if self._polls_late and self._delivery.is_light:
            self._maybe_replace()
        started = time.monotonic()
        polled = self._poll()
        took_s = time.monotonic() - started
        records = list(polled) if polled is not None and not isinstance(polled, Batch) else None
        batches = [polled] if isinstance(polled, Batch) else Batch.of_records(records) if records else []
        count = sum(len(b) for b in batches)
        if count:
            self.counters.polled(count, took_s)
        if self.spec.is_exactly_once:
            self._dispatch(batches, records, count)
        else:
            self._send(batches)
            self.counters.used_topics()
            self._maybe_flush()
        if not count and took_s < _IDLE_POLL_S:
            self.control.wait(_IDLE_WAIT_S)

    def _poll(self) -> Batch | Sequence[SourceRecord] | None:
        try:
            return self.task.poll()
        except RetriableError as error:
            log.warning("task %s: poll failed and will be retried: %s", self.spec.id, error)
            self.counters.errors.retries += 1
            self.control.wait(_RETRY_POLL_S)
            return None

    def _dispatch(self, batches: list[Batch], records: list[SourceRecord] | None, count: int) -> None:
        for start, stop, verdict in self.boundary.segments(records, count):
            is_covered = self._send(
                batches if (start, stop) == (0, count) else _cut(batches, start, stop),
                is_last=verdict is BoundaryDecision.COMMIT,
            )
            is_full = verdict is BoundaryDecision.GO_ON and self.boundary.may_end_early and self._delivery.is_full
            if verdict is BoundaryDecision.COMMIT or is_full:
                self._commit(is_covered=is_covered)
            elif verdict is BoundaryDecision.ABORT:
                self._abort()

    def _send(self, batches: list[Batch], *, is_last: bool = False) -> bool:
        """Send `batches`; before the last ones of a transaction, its offsets. Returns whether the offsets were sent."""
        ready = [(batch, self.processor.process(batch)) for batch in batches]
        for _, outgoing in ready:
            self.topics.ensure(outgoing.topics)
        if ready:
            self._maybe_replace()
        if self._acknowledged is None:
            for batch in batches:
                self.book.add(batch.last_offsets())
                self._has_ends |= bool(batch.ends)
        is_covered = is_last and bool(ready) and not self._updates_offsets and self._cover()
        for batch, outgoing in ready:
            queued = None if self._acknowledged is None else self._acknowledged.sent(batch, outgoing)
            if self._last_sent is not None:
                outgoing = replace(outgoing, callbacks=self._last_sent.callbacks_for(batch, outgoing))
            try:
                self._delivery.send(outgoing, self._on_delivered(batch, outgoing, queued))
            except ProduceError as error:
                raise self._placed(error, batch, outgoing) from None
            self.counters.sent(len(outgoing), outgoing.topics)
            if outgoing.letters is not None:  # E15
                self.counters.sent_dead_letters(len(outgoing.letters))
                self._delivery.send(outgoing.letters, queued)
        if self._acknowledged is not None:
            self._acknowledged.relieve(self._delivery)
        return is_covered

    def _placed(self, error: ProduceError, batch: Batch, outgoing: Outgoing) -> ProduceError:
        def origin(index: int) -> str:
            return batch.record(index if outgoing.sources is None else outgoing.sources[index]).origin

        return with_its_place(error, outgoing, most_record_bytes(self.spec.output.producer_conf), origin)

    def _cover(self) -> bool:
        return self._delivery.cover(self._offsets())

    def _offsets(self) -> list[tuple[bytes, bytes | None]]:
        return offset_records(self.spec, self.book.to_write(), self.book.spellings)

    def _on_delivered(self, batch: Batch, outgoing: Outgoing, queued: OnDelivered | None) -> OnDelivered | None:
        """Return the callback for each acknowledged record, or None if nothing needs it."""
        tracked = self._tracked(batch, outgoing) if self._tracks_records else None
        if queued is None or tracked is None:
            return queued or tracked

        def both(index: int, metadata: RecordMetadata) -> None:
            queued(index, metadata)
            tracked(index, metadata)

        return both

    def _tracked(self, batch: Batch, outgoing: Outgoing) -> OnDelivered:
        sent = range(len(batch)) if outgoing.sources is None else set(outgoing.sources)
        records = [_Delivered(record, index in sent) for index, record in enumerate(batch.records())]
        self._delivered.extend(records)

        def delivered(index: int, metadata: RecordMetadata) -> None:
            records[index].metadata = metadata

        return delivered

    def _commit(self, *, is_covered: bool = False) -> bool:
        """Commit what is open, if anything. Returns False if the commit has to wait longer."""
        if self._acknowledged is not None:
            return not self._is_cut_short and self._flush(self._acknowledged)
        if self._updates_offsets and not self._is_cut_short:
            self.book.updated_by(checked_update(self.task.update_offsets(self.book.pending), self.spec.id))
        if not self._delivery.is_open and not self.book.has_changes and not self._has_ends:
            self.book.drop_pending()
            if not self.book.is_committing:  # else the author would take it for the commit in progress
                self._tell_committed()
            return True
        if not self._delivery.is_open:
            self._maybe_replace()  # offsets alone also begin a transaction
        begun_s = time.monotonic()
        try:
            is_accepted = self._commit_open(() if is_covered else self._offsets())
        except Exception:
            self._commit_failed()
            raise
        if is_accepted:
            self.book.seal()
            self._has_ends = False
            self.counters.commit_begun(begun_s)
            self.boundary.committed()
            self._learn(wait=not self.runs_ahead)
        return is_accepted

    def _commit_open(self, offsets: OffsetRecords) -> bool:
        if self._last_sent is None:
            return self._delivery.commit(offsets)
        last_sent, self._last_sent = self._last_sent, self._none_sent()
        is_accepted = self._delivery.commit(offsets, last_sent.closing)
        if not is_accepted:
            self._last_sent = last_sent
        return is_accepted

    def _none_sent(self) -> LastSent | None:
        """Return where the records of a new transaction are recorded; None unless the task adds records to its end."""
        return LastSent(self.task) if isinstance(self.task, MirrorTask) and adds_records(type(self.task)) else None

    def _flush(self, offsets: AcknowledgedOffsets) -> bool:
        begun_s, was_open = time.monotonic(), self._delivery.is_open
        try:
            flushed = offsets.flush(self._delivery)
        except Exception:
            self._commit_failed()
            raise
        if flushed.has_written or (flushed.is_whole and was_open):
            self.counters.commit_begun(begun_s)
            self.counters.committed(time.monotonic())
        self._tell_records()
        if flushed.is_whole:  # else an author who acknowledges all polled records upstream would lose the rest
            self.task.commit()
        return flushed.is_whole

    def _tell_committed(self) -> None:
        self._tell_records()
        if not self._is_cut_short:  # else an author who acknowledges all polled records upstream would lose the rest
            self.task.commit()

    def _tell_records(self) -> None:
        delivered, self._delivered = self._delivered, []
        for one in delivered:
            if one.is_sent and one.metadata is None:
                self._delivered.append(one)  # not acknowledged yet; only happens if a flush took too long
            else:
                self.task.commit_record(one.record, one.metadata)

    def _abort(self) -> None:
        """Drop the records of the transaction, and commit their offsets in a new one (KIP-618)."""
        if not self._delivery.is_open:
            log.warning("task %s asked to abort a transaction, but none is open; nothing is aborted", self.spec.id)
            return
        self._delivery.abort()
        self._last_sent = self._none_sent()
        self.counters.aborted()
        self._delivered = [_Delivered(one.record, is_sent=False) for one in self._delivered]
        self._commit()

    def _maybe_flush(self) -> None:
        if time.monotonic() - self._last_flush >= self.spec.commits.offset_flush_interval_ms / 1000:
            self._last_flush = time.monotonic()
            self._commit()

    def _ends_cleanly(self) -> bool:
        """Commit or abort what is open, as the boundary decides. Returns whether the instance may continue."""
        if not self.spec.is_exactly_once or self.boundary.should_commit_at_end():
            is_done = self._commit()
            self._learn(wait=True)
            return is_done
        if self._delivery.is_open or self.book.pending:
            self._delivery.abort()
            self.book.drop_pending()
            return False
        return True

    def _stay_paused(self) -> None:
        self.report_state(RunState.PAUSED)
        self.control.wait_while_paused()
        if not self.control.is_stopping:
            self.report_state(RunState.RUNNING)


@dataclass(slots=True)
class _Delivered:
    """A record for which the author's `commit_record` is called once it is committed."""

    record: SourceRecord
    is_sent: bool
    metadata: RecordMetadata | None = None


def _cut(batches: list[Batch], start: int, stop: int) -> list[Batch]:
    """Return records `start` to `stop` of a list of batches."""
    cut, first = [], 0
    for batch in batches:
        low, high = max(start - first, 0), min(stop - first, len(batch))
        if low < high:
            cut.append(batch.slice(low, high))
        first += len(batch)
    return cut


def transaction_context(boundary: Boundary) -> ConnectorBoundary | None:
    """Return the context with which a task ends its transactions; None unless transaction.boundary is connector."""
    return boundary if isinstance(boundary, ConnectorBoundary) else None
