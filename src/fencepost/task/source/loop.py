"""The loop of one source task: poll, transform, convert and produce, and commit at a boundary.

This is step 8 of docs/architecture.md.

A delivery may commit in the background. The loop then polls, converts and sends the next batch in the meantime, unless
the author acts on commits. It learns on its next turn what was committed, or failed.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Any

from fencepost.api import FatalError, RetriableError, SourceRecord, SourceTask, TransactionContext
from fencepost.hook.hosted_task import TaskPlace
from fencepost.hook.mirror import MirrorTask, adds_records
from fencepost.hook.written import Written
from fencepost.record import Batch
from fencepost.task.channel.message import RunState
from fencepost.task.control import Control
from fencepost.task.delivery.delivery import Delivery, TopicCreation
from fencepost.task.delivery.finish import LastSent
from fencepost.task.delivery.lanes import TransactionSize
from fencepost.task.failure.tolerance import ErrorCounters, StoppedInRetryError
from fencepost.task.source.boundary import Boundary, BoundaryDecision
from fencepost.task.source.commits import CommitCallbacks, SourceCommits, SourceSender
from fencepost.task.source.offsets import OffsetBook, PendingOffsets
from fencepost.task.source.processing import Processor
from fencepost.task.start.run import Counters, CurrentDelivery, TaskRun

_RIGHT = (
    "return Batch.of_rows(rows, topic=..., source_partition=..., offset=...), a list of SourceRecord, or None if there "
    "is nothing now"
)


def in_batches(polled: Any, task: str) -> tuple[list[SourceRecord] | None, list[Batch]]:
    """Return the author's own records, or None if `poll` returned columns; and everything as batches.

    `task` names the task's class in errors. Raises FatalError for anything that is no records.
    """
    match polled:
        case None:
            return None, []
        case Batch():  # columns, or whole batches
            return None, [polled]
        case SourceRecord():
            raise FatalError(f"poll() of {task} returned a single SourceRecord: return a list, [record]")
        case Mapping():
            raise FatalError(f"poll() of {task} returned a single row: {_RIGHT}")
        case str() | bytes():
            raise FatalError(f"poll() of {task} returned {_described(polled)}: {_RIGHT}")
    try:
        records = list(polled)
    except TypeError:
        raise FatalError(f"poll() of {task} returned {_described(polled)}: {_RIGHT}") from None
    return _of_list(records, task)


def _of_list(records: list[Any], task: str) -> tuple[list[SourceRecord], list[Batch]]:
    # The check of every record costs a twentieth of what is done with each of them anyway.
    wrong = next((n for n, record in enumerate(records) if not isinstance(record, SourceRecord)), None)
    if wrong is None:
        return records, Batch.of_records(records)
    if isinstance(records[wrong], Mapping):
        raise FatalError(f"poll() of {task} returned a list of dicts, which say no topic and no offset: {_RIGHT}")
    raise FatalError(f"poll() of {task} returned a list whose item {wrong} is {_described(records[wrong])}: {_RIGHT}")


def _described(value: Any) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else f"{type(value).__name__} {value!r:.60}"


log = logging.getLogger(__name__)

_IDLE_POLL_S = 0.001
_IDLE_WAIT_S = 0.01
_POLL = "poll"
_RETRY_POLL_S = 0.1


class LoopEnd(Enum):
    """Why a loop returned without an error."""

    STOPPED = auto()
    DISCARDED = auto()  # the task instance is ahead of what is committed: start a new one


class SourceLoop:
    """Runs one task instance."""

    def __init__(
        self,
        run: TaskRun[Counters],
        task: SourceTask,
        processor: Processor,
        boundary: Boundary,
        book: OffsetBook,
        topics: TopicCreation,
        replace: Callable[[], Delivery],
        *,
        runs_ahead: bool = False,
    ) -> None:
        """`replace` retires a delivery and returns its admitted successor (E5).

        `runs_ahead`: the next batch is polled before the last one is committed.
        """
        self._run = run
        self._task = task
        self._boundary = boundary
        self._book = book
        self._callbacks = CommitCallbacks(task)
        self._current = CurrentDelivery(run, replace, self._committed)
        offsets = PendingOffsets(run.spec, task, book)
        last_sent = LastSent(task) if isinstance(task, MirrorTask) and adds_records(type(task)) else None
        self._sender = SourceSender(run, processor, topics, self._current, offsets, self._callbacks, last_sent)
        self._commits = SourceCommits(run, boundary, self._current, offsets, self._callbacks, self._sender, runs_ahead)

    def run(self, delivery: Delivery) -> LoopEnd:
        """Move data until asked to stop. Errors of the task, of conversion and of Kafka propagate."""
        self._current.delivery = delivery
        try:
            return self._run_to_the_end()
        except BaseException:
            self._current.learn(wait=True)  # if a commit has failed, its error is the cause, and decides what is next
            raise
        finally:
            self._run.counters.dropped()
            self._run.tracing.dropped()

    def _run_to_the_end(self) -> LoopEnd:
        try:
            ending = self._take_turns()
        except StoppedInRetryError as error:
            log.info("task %s stops before the batch that it was processing is sent: %s", self._run.spec.id, error)
            self._callbacks.is_cut_short = True
            ending = LoopEnd.STOPPED
        if ending is LoopEnd.STOPPED:
            if not self._current.delivery.must_be_replaced:  # else nothing is open, and a start would fence others
                self._commits.end_cleanly()
            self._current.learn(wait=True)
        return ending

    def _take_turns(self) -> LoopEnd:
        control = self._run.control
        while not control.is_stopping:
            control.move()
            if self._current.delivery.must_be_replaced:
                self._current.replace()
            self._current.learn(wait=False)
            if not control.is_paused:
                self._turn()
            elif self._commits.end_cleanly():
                self._stay_paused()
            else:
                return LoopEnd.DISCARDED
        return LoopEnd.STOPPED

    def _committed(self) -> None:
        self._book.committed()
        self._callbacks.committed()

    def _turn(self) -> None:
        if isinstance(self._task, MirrorTask) and self._task.polls_late and self._current.delivery.is_light:
            self._current.ensure_ready()
        started = time.monotonic()
        polled = self._poll()
        took_s = time.monotonic() - started
        records, batches = in_batches(polled, type(self._task).__name__)
        count = sum(len(b) for b in batches)
        if count:
            self._run.counters.polled(count, took_s)
            with self._run.tracing.sending(count, took_s):
                self._send(batches, records, count)
        else:
            self._send(batches, records, count)
        if not count and took_s < _IDLE_POLL_S:
            self._run.control.wait(_IDLE_WAIT_S)

    def _send(self, batches: list[Batch], records: list[SourceRecord] | None, count: int) -> None:
        if self._run.spec.is_exactly_once:
            self._dispatch(batches, records, count)
        else:
            self._sender.send(batches)
            self._commits.flush_if_due()

    def _poll(self) -> Batch | Sequence[SourceRecord] | None:
        try:
            polled = self._task.poll()
        except RetriableError as error:
            if self._run.counters.errors.retried.met(_POLL, error):
                log.warning("task %s: poll failed and will be retried: %s", self._run.spec.id, error)
            self._run.counters.errors.retries += 1
            self._run.control.wait(_RETRY_POLL_S)
            return None
        self._run.counters.errors.retried.passed(_POLL)
        return polled

    def _dispatch(self, batches: list[Batch], records: list[SourceRecord] | None, count: int) -> None:
        for start, stop, verdict in self._boundary.segments(records, count):
            is_covered = self._sender.send(
                batches if (start, stop) == (0, count) else _cut(batches, start, stop),
                is_last=verdict is BoundaryDecision.COMMIT,
            )
            may_end = verdict is BoundaryDecision.GO_ON and self._boundary.may_end_early
            if verdict is BoundaryDecision.COMMIT or (may_end and self._current.delivery.is_full):
                self._commits.commit(is_covered=is_covered)
            elif verdict is BoundaryDecision.ABORT:
                self._commits.abort()

    def _stay_paused(self) -> None:
        self._run.report_state(RunState.PAUSED)
        self._run.control.wait_while_paused()
        if not self._run.control.is_stopping:
            self._run.report_state(RunState.RUNNING)


def _cut(batches: list[Batch], start: int, stop: int) -> list[Batch]:
    cut, first = [], 0
    for batch in batches:
        low, high = max(start - first, 0), min(stop - first, len(batch))
        if low < high:
            cut.append(batch.slice(low, high))
        first += len(batch)
    return cut


class TaskContext:
    """The `SourceTaskContext` of a task in a slot."""

    def __init__(
        self,
        configs: Mapping[str, str],
        book: OffsetBook,
        control: Control,
        transaction: TransactionContext | None,
        *,
        takes_columns: bool = False,
        batches_refusal: str | None = None,
        sizes: TransactionSize | None = None,
        written: Callable[[], Written] | None = None,
    ) -> None:
        self.configs = configs
        self.transaction = transaction
        self.takes_columns = takes_columns
        self.batches_refusal = batches_refusal
        self._written = written
        self._sizes = sizes
        self._book = book
        self._control = control

    def written(self) -> Written | None:
        return None if self._written is None else self._written()

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(partition, Mapping):
            raise TypeError(
                f"context.offset({partition!r}): a source partition is a mapping, the same that records have: "
                f"write {{'name': {partition!r}}}"
            )
        return self._book.offset(partition)

    def offsets(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return self._book.all_committed()

    @property
    def transaction_bytes(self) -> int | None:
        return None if self._sizes is None else self._sizes.limit_bytes

    @property
    def transaction_timeout_s(self) -> float | None:
        return None if self._sizes is None else self._sizes.timeout_s

    @property
    def is_stopping(self) -> bool:
        return self._control.should_yield

    def wait(self, timeout_s: float) -> bool:
        self._control.wait(timeout_s)
        return self.is_stopping

    def wake(self) -> None:
        self._control.wake()

    def request_commit(self) -> None:
        self._control.is_commit_asked = True


class HostedContext(TaskContext):
    """The `HostedTaskContext` of a task in a slot."""

    def __init__(self, place: TaskPlace, errors: ErrorCounters, *context: Any, **more: Any) -> None:
        """`context` and `more` are the arguments of a `TaskContext`."""
        super().__init__(*context, **more)
        self.place = place
        self._errors = errors

    def count_retries(self, count: int) -> None:
        self._errors.retries += count

    @property
    def is_to_stop(self) -> bool:
        return self._control.is_stopping
