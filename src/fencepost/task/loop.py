"""The loop of one source task: poll, transform, convert, produce, and at a boundary commit (DESIGN 2, step 8)."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from fencepost.api import RecordMetadata, RetriableError, SourceRecord, SourceTask
from fencepost.record import Batch
from fencepost.task.boundary import Boundary, ConnectorBoundary, Verdict
from fencepost.task.control import Control
from fencepost.task.counters import Counters
from fencepost.task.delivery import Delivery, offset_records
from fencepost.task.offsets import OffsetBook
from fencepost.task.processing import Processor
from fencepost.task.spec import RunState, TaskSpec
from fencepost.task.topics import TopicCreation

log = logging.getLogger(__name__)

_IDLE_POLL_S = 0.001
_IDLE_WAIT_S = 0.01
_RETRY_POLL_S = 0.1


class Ending(Enum):
    """Why a loop came back without an error."""

    STOPPED = auto()
    DISCARDED = auto()  # the task instance is ahead of what is committed: start a new one


@dataclass
class SourceLoop:
    """Runs one task instance.

    `replace` retires a struck delivery and returns its admitted successor (E5); `say` reports a change of state.
    """

    spec: TaskSpec
    task: SourceTask
    processor: Processor
    boundary: Boundary
    control: Control
    book: OffsetBook
    counters: Counters
    replace: Callable[[], Delivery]
    say: Callable[[RunState], None]
    topics: TopicCreation
    _last_flush: float = field(default_factory=time.monotonic)
    _delivered: list[tuple[SourceRecord, list[RecordMetadata]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._tracks_records = type(self.task).commit_record is not SourceTask.commit_record
        self._updates_offsets = type(self.task).update_offsets is not SourceTask.update_offsets

    def run(self, delivery: Delivery) -> Ending:
        """Move data until told to stop. Errors of task, conversion and Kafka pass through."""
        self._delivery = delivery
        while not self.control.is_stopping:
            self._maybe_replace()
            if not self.control.is_paused:
                self._turn()
            elif self._ends_cleanly():
                self._stay_paused()
            else:
                return Ending.DISCARDED
        if not self._delivery.must_be_replaced:  # else nothing is open, and a start for nothing would fence others
            self._ends_cleanly()
        return Ending.STOPPED

    def _maybe_replace(self) -> None:
        if self._delivery.must_be_replaced:
            self._delivery = self.replace()

    def _turn(self) -> None:
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
            log.warning("task %s: poll failed and is tried again: %s", self.spec.id, error)
            self.counters.errors.retries += 1
            self.control.wait(_RETRY_POLL_S)
            return None

    def _dispatch(self, batches: list[Batch], records: list[SourceRecord] | None, count: int) -> None:
        for start, stop, verdict in self.boundary.segments(records, count):
            self._maybe_replace()
            self._send(batches if (start, stop) == (0, count) else _cut(batches, start, stop))
            if verdict is Verdict.COMMIT:
                self._commit()
            elif verdict is Verdict.ABORT:
                self._abort()

    def _send(self, batches: list[Batch]) -> None:
        for batch in batches:
            outgoing = self.processor.process(batch)
            self.topics.ensure(outgoing.topics)
            if self._tracks_records:
                self._send_tracked(batch, outgoing)
            else:
                self._delivery.send(outgoing)
            self.book.add(batch.last_offsets())
            self.counters.sent(len(outgoing), outgoing.topics)

    def _send_tracked(self, batch: Batch, outgoing: Any) -> None:
        places: list[list[RecordMetadata]] = [[] for _ in range(len(batch))]
        self._delivery.send(outgoing, lambda index, metadata: places[index].append(metadata))
        self._delivered.extend(zip(batch.records(), places, strict=True))

    def _commit(self) -> bool:
        if self._updates_offsets:
            self.book.updated_by(self.task.update_offsets(self.book.pending))
        if not self._delivery.is_open and not self.book.pending:
            self._tell_committed()
            return True
        started = time.monotonic()
        try:
            is_done = self._delivery.commit(offset_records(self.spec, self.book.to_write()))
        except Exception:
            self.counters.commit_failed()
            raise
        if is_done:
            self._committed(time.monotonic() - started)
        return is_done

    def _committed(self, took_s: float) -> None:
        self.book.committed()
        self.boundary.committed()
        self.counters.committed(took_s)
        self._tell_committed()

    def _tell_committed(self) -> None:
        delivered, self._delivered = self._delivered, []
        for record, places in delivered:
            self.task.commit_record(record, places[0] if places else None)
        self.task.commit()

    def _abort(self) -> None:
        """Drop the records of the transaction; their offsets are then committed in a new one (contract A.10)."""
        if not self._delivery.is_open:
            log.warning("task %s asked to abort a transaction, but none is open", self.spec.id)
            return
        self._delivery.abort()
        self.counters.aborted()
        self._delivered = [(record, []) for record, _ in self._delivered]
        self._maybe_replace()
        self._commit()

    def _maybe_flush(self) -> None:
        if time.monotonic() - self._last_flush >= self.spec.offset_flush_interval_ms / 1000:
            self._last_flush = time.monotonic()
            self._commit()

    def _ends_cleanly(self) -> bool:
        """Commit, or abort, what is open, by the boundary's rule. Returns whether the instance may go on."""
        if not self.spec.is_exactly_once or self.boundary.should_commit_at_end():
            return self._commit()
        if self._delivery.is_open or self.book.pending:
            self._delivery.abort()
            self.book.drop_pending()
            return False
        return True

    def _stay_paused(self) -> None:
        self.say(RunState.PAUSED)
        self.control.wait_while_paused()
        if not self.control.is_stopping:
            self.say(RunState.RUNNING)


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
    """Return what a task may define its transactions with, None unless the boundary is the connector's."""
    return boundary if isinstance(boundary, ConnectorBoundary) else None
