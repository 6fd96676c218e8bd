"""Commits what a source's task has sent, with its offsets, or aborts it."""

import logging
import time
from dataclasses import dataclass, field

from fencepost.task.delivery.delivery import Delivery, PlainDelivery
from fencepost.task.life.counters import Counters
from fencepost.task.life.current_delivery import CurrentDelivery
from fencepost.task.life.task_run import TaskRun
from fencepost.task.source.acknowledged_offsets import AcknowledgedOffsets
from fencepost.task.source.boundary import Boundary
from fencepost.task.source.commit_callbacks import CommitCallbacks
from fencepost.task.source.pending_offsets import PendingOffsets
from fencepost.task.source.sender import SourceSender

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
        """Commit what is open, if anything. Returns False if the commit has to wait longer.

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
        """Commit at the flush interval, for a task that delivers at least once.

        A task that adds records says more often which ones are in the log.
        """
        self.run.counters.used_topics()
        now_s, delivery, last_sent = time.monotonic(), self.current.delivery, self.sender.last_sent
        if now_s - self._last_flush_s >= self.run.spec.commits.offset_flush_interval_ms / 1000:
            self._last_flush_s = now_s
            self.commit()
        elif last_sent is not None and isinstance(delivery, PlainDelivery) and last_sent.is_due(now_s):
            delivery.add(last_sent.delivered)

    def end_cleanly(self) -> bool:
        """Commit or abort what is open, as the boundary decides. Returns whether the instance may continue."""
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
