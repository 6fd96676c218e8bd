"""A sink task whose `put` is Java's, in the host that this process's Java tasks share.

Java gets the records as bytes, and converts and transforms them. It never commits: this process's member of the group
does, and only what Java's `preCommit` allows. A host that ends takes along what Java had taken and not written, so the
task is started again and gets everything behind the committed offsets once more: at least once, as in Kafka Connect.

All calls are made in the task's thread. While `put` is under way, nothing can be committed or released.
"""

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from fencepost.api import FatalError, RetriableError
from fencepost.builtin.java.client.crossing import Crossing
from fencepost.builtin.java.error import HostEndedError, JavaError, JavaRetriableError
from fencepost.builtin.java.java_task import STOP_S, JavaTask, error_of
from fencepost.builtin.java.port import Effects, Errant, PutEffects, SinkTaskStart
from fencepost.hook.hosted_task import (
    TASK_CLASS,
    ForeignRecordError,
    GroupMember,
    HostedSink,
    HostedSinkContext,
    Progress,
    Put,
    RefusedReportError,
)
from fencepost.record import BinaryColumn, Repeated, SinkBatch, SinkRecord, TopicPartition

if TYPE_CHECKING:
    from fencepost.builtin.java.client.session import HostedSinkTask

log = logging.getLogger(__name__)

_FORM = Crossing(is_source=False)
_LOOK_S = 0.2
_INTERRUPTED_S = 1.0  # how long a call may go on after its interrupt

_Report = Callable[[], object]
_MOST_BATCHES = 16
_MOST_BYTES = 1 << 20  # the host has their records in memory beside what it makes of them
_QUICK_S = 0.05
_OF_A_VALUE = 500


class _Owed(NamedTuple):
    """The rows of Java's last put, with the reports of their records that are not made yet: of those that Java could
    not convert, and of those that its task has reported."""

    batch: SinkBatch | None
    put: Put
    left_out: deque[_Report]
    reports: deque[_Report]
    thrown: JavaError | JavaRetriableError | None


_NOTHING = _Owed(None, Put(0), deque(), deque(), None)


class JavaSinkTask(JavaTask, HostedSink):
    """The tasks of a `JavaSinkConnector`."""

    context: HostedSinkContext

    def start(self) -> None:
        """Start Java's task. Raises HostLostError if the host ends meanwhile."""
        self._lease = self.config.plugins.hosts.tasks.take(self.context.place.incarnation)
        self._is_idle = threading.Event()
        self._identity: GroupMember | None = None
        self._refused: SinkBatch | None = None
        self._owed = _NOTHING
        self._late_reports: deque[_Report] = deque()
        self._unwritten: deque[Future[None]] = deque()  # of what was reported; perhaps written by now
        self._reported = 0  # by Java, ever
        self._is_ending = False
        self._letters_until_s: float | None = None  # once the task is to stop
        self._hosted: HostedSinkTask | None = None
        common = self._common_start(is_source=False)
        self._slices = Slices(self.context.most_records, is_single=common["passes_records"])
        start = SinkTaskStart(**common, has_reporter=self._has_reporter, offsets=self.context, report=self._report_now)
        self._hosted = self._call(self._lease.host.sink_task, start)

    @staticmethod
    def require_form(record: SinkRecord) -> None:
        _FORM.written([record])

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """Tell Java of new partitions, or only of a new generation of the group."""
        identity = self._identity = self.context.identity
        effects: Effects = self._call(self._task.open, partitions, identity)
        self._heed(effects)
        self._add_late(effects.errant)

    def put(self, batch: SinkBatch) -> None:
        """Put records. Raises Java's RetriableException, after which the same rows are put without a new conversion.

        Raises what a report raises, too: if the same rows are put again after that, Java has them already, and only the
        reports that are left are made.
        """
        self.progress = Progress(refused=batch)
        if self._identity != self.context.identity:
            self.open(())
        if self._owed.batch is not batch:
            self._put(batch)
        self._pay()

    def _put(self, batch: SinkBatch) -> None:
        """Have Java put rows, and keep what follows from its last call, which comes first."""
        # Its batch was given up. What Java could not convert comes again, here or elsewhere; reports may be waited for.
        self._late_reports.extend(self._owed.reports)
        self._owed = _NOTHING
        is_again = batch is self._refused
        sent = batch if is_again else self._slices.cut(batch)
        began_s = time.monotonic()
        effects: PutEffects = self._call(
            self._task.put, sent, self.context.most_records, is_again=is_again, meanwhile=self._read_ahead
        )
        *before, last = effects.puts
        start = sum(put.rows for put in before)
        rows = batch if last.rows == len(batch) else batch.part(start, start + last.rows)
        self._heed(effects)
        self._reported += len(effects.errant)
        reports: deque[_Report] = deque()
        own = set(zip(rows.places, rows.offsets, strict=True)) if effects.errant else set()
        for errant in effects.errant:  # one of earlier rows does not come again with these
            at = errant.record.at, errant.record.kafka_offset
            (reports if at in own else self._late_reports).append(partial(self._report, errant))
        self._refused = rows if isinstance(effects.thrown, JavaRetriableError) else None
        self._owed = _Owed(rows, last, deque(self._left_out(effects, batch)), reports, effects.thrown)
        self.progress = Progress(before, rows)
        is_whole = start + last.rows == len(sent) and effects.thrown is None
        is_uneventful = is_whole and not effects.errant and not effects.processing.failures
        self._slices.adapt(sent, time.monotonic() - began_s, is_uneventful=is_uneventful)
        self.batches = self._slices.batches

    def _read_ahead(self) -> None:
        self.context.read_ahead(self._slices.batches * self.context.most_records)

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Have Java flush. Nothing may be committed until the records are safe that it reports meanwhile, or has
        reported late: these are reported again with the next call, and not put again. Raises RefusedReportError."""
        if not self._has_reported():
            return {}
        found: tuple[Mapping[TopicPartition, int], Effects] = self._call(self._task.pre_commit, offsets)
        allowed, effects = found
        self._heed(effects)
        self._add_late(effects.errant)
        if not self._has_reported():
            return {}
        return allowed

    def _has_reported(self) -> bool:
        """Make the reports of records whose offsets count as taken, and say whether none is left."""
        try:
            _make(self._late_reports)
        except RetriableError as error:
            log.warning("task %s commits nothing until what it has reported is written: %s", self._id, error)
        except FatalError as error:
            raise RefusedReportError(str(error)) from error
        return not self._late_reports

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Release partitions. Without a host there is nothing to release, and the next `put` tells that it is gone.

        Raises RefusedReportError, or RetriableError if not all that was reported is a dead letter, or the host has
        taken along what may have been reported: none is committed.
        """
        before = self._reported
        try:
            effects = self._task.close(partitions)
        except HostEndedError as error:
            raise RetriableError(f"its partitions are released without Java's close: {error}") from error
        self._heed(effects)
        self._add_late(effects.errant)
        if self._reported > before and not self._has_reported():
            raise RetriableError(f"task {self._id} has reported records that are no dead letters yet")

    def abandon(self) -> None:
        """Interrupt the thread of Java's call, and kill the host soon if that does not end it."""
        self._letters_until_s = 0.0  # the thread may wait for this one
        threading.Thread(target=self._end_call, name=f"abandon-{self._id}", daemon=True).start()

    def _end_call(self) -> None:
        hosted = self._hosted
        if hosted is not None:
            with contextlib.suppress(HostEndedError):
                hosted.interrupt()
        if not self._is_idle.wait(_INTERRUPTED_S):
            super().abandon()

    def stop(self) -> None:
        """Stop Java's task, unless its host has ended."""
        self._is_ending = True
        if not self._has_host:
            return
        try:
            if self._hosted is not None and self._lease.host.end is None:
                self._hosted.stop(STOP_S)
        except HostEndedError as error:
            log.warning("task %s has stopped with its host: %s", self._id, error)
        finally:
            self._lease.end()

    @property
    def _task(self) -> "HostedSinkTask":
        assert self._hosted is not None
        return self._hosted

    @property
    def _has_reporter(self) -> bool:
        return self.context.errant_record_reporter is not None

    def _heed(self, effects: Effects) -> None:
        """Pass on what a call has asked for, without its reports."""
        context = self.context
        if effects.rewinds:
            context.seek(effects.rewinds)
        if effects.timeout_ms is not None:
            context.timeout(effects.timeout_ms)
        if effects.paused:
            context.pause(*effects.paused)
        if effects.resumed:
            context.resume(*effects.resumed)
        if effects.requests_commit:
            context.request_commit()
        context.count_retries(effects.processing.retries)

    def _left_out(self, effects: Effects, batch: SinkBatch) -> Iterator[_Report]:
        for failure in effects.processing.failures:
            yield partial(self.context.left_out, batch.record(failure.row), failure.stage, error_of(failure))

    def _pay(self) -> None:
        """Make the reports of the last put, and late ones. Raises what they, or Java, have raised."""
        _, put, left_out, reports, thrown = self._owed
        try:
            for each in (self._late_reports, left_out, reports):
                _make(each)
        except FatalError as error:
            if thrown is None:
                raise
            raise thrown from error  # the error names the record; Java's has the cause, and its stack
        self._owed = _NOTHING
        if thrown is not None:
            raise thrown
        self.progress = Progress([*self.progress.puts, put])

    def _add_late(self, errant: Sequence[Errant]) -> None:
        """Take reports of records that do not come again with what Java has refused."""
        self._reported += len(errant)
        self._late_reports.extend(partial(self._report, each) for each in errant)

    def _report_now(self, errant: Sequence[Errant]) -> int:
        """Make these reports and all before them in the middle of a call, and wait until their letters are written.

        Reports that are refused for now are made again; a task that is to stop waits for `last_letters_s` in all.
        Returns how many records Java has ever reported. Raises RetriableError, and what a report raises: that is raised
        again after the call.
        """
        self._add_late(errant)
        if self._is_ending:
            raise RetriableError(f"task {self._id} has ended: dead letters are written no more")
        while self._late_reports or self._owed.left_out or self._owed.reports:
            try:
                for each in (self._late_reports, self._owed.left_out, self._owed.reports):
                    _make(each)
            except RetriableError:
                if self._is_too_late():
                    raise
                time.sleep(_LOOK_S)
        while self._unwritten:
            with contextlib.suppress(TimeoutError):
                self._unwritten[0].result(_LOOK_S)
                self._unwritten.popleft()
            if self._unwritten and self._is_too_late():
                raise RetriableError(f"task {self._id} is to stop before its dead letters are written")
        return self._reported

    def _is_too_late(self) -> bool:
        """Say whether the task is to stop, and dead letters were waited for since then for as long as they may be."""
        if self._letters_until_s is None:
            if not self.context.is_stopping:
                return False
            self._letters_until_s = time.monotonic() + self.context.last_letters_s
        return time.monotonic() >= self._letters_until_s

    def _report(self, errant: Errant) -> None:
        reporter = self.context.errant_record_reporter
        assert reporter is not None
        task_class = self.context.configs[TASK_CLASS]
        error = ForeignRecordError.of(errant.class_name, errant.message, task_class, errant.trace)
        while self._unwritten and self._unwritten[0].done() and self._unwritten[0].exception() is None:
            self._unwritten.popleft()
        self._unwritten.append(reporter.report(errant.record, error))

    def _call(self, function: Any, *arguments: Any, **named: Any) -> Any:
        """Call Java. Raises HostLostError if the host ends meanwhile."""
        self._is_idle.clear()
        try:
            return function(*arguments, **named)
        except HostEndedError as error:
            raise self._lease.lost(error) from error
        finally:
            self._is_idle.set()


def _make(reports: deque[_Report]) -> None:
    """Make reports in order. Raises what one raises, which is then the first of those that are left."""
    while reports:
        try:
            reports[0]()
        except FatalError as error:
            reports[0] = partial(_fail, error)  # its dead letter may be written
            raise
        reports.popleft()


def _fail(error: FatalError) -> None:
    raise error


class Slices:
    """Grows by one batch for each crossing that was quick and uneventful, and halves after a slow one.

    `is_single`: one batch at a time, as its records were transformed in this process, which happens to each only once.
    """

    def __init__(self, most_rows: int, *, is_single: bool = False) -> None:
        self._most_rows = most_rows
        self._most_batches = 1 if is_single else _MOST_BATCHES
        self.batches = 1

    def cut(self, batch: SinkBatch) -> SinkBatch:
        """Return what is to be sent of a batch: its first records if they are large, but at least `most_rows`."""
        count = len(batch)
        if count > self._most_rows and (size := size_of(batch)) > _MOST_BYTES:
            return batch.part(0, max(self._most_rows, count * _MOST_BYTES // size))
        return batch

    def adapt(self, sent: SinkBatch, took_s: float, *, is_uneventful: bool) -> None:
        """Heed how long it took to put a batch. `is_uneventful`: all of it was put, and nothing was asked for."""
        if not is_uneventful:
            self.batches = 1
        elif took_s > _QUICK_S or size_of(sent) > _MOST_BYTES:
            self.batches = max(1, self.batches // 2)
        elif len(sent) > (self.batches - 1) * self._most_rows:
            fitting = _MOST_BYTES * len(sent) // (size_of(sent) + 1) // self._most_rows
            self.batches = min(max(1, min(self._most_batches, fitting)), self.batches + 1)


def size_of(batch: SinkBatch) -> int:
    """Return about how many bytes the keys and values of a batch take."""
    return _size(batch.keys) + _size(batch.values)


def _size(column: Sequence[bytes | None]) -> int:
    """Return about how many bytes a column takes; values of a mixed chain are not measured one by one."""
    if isinstance(column, BinaryColumn):
        return column.size_bytes
    if isinstance(column, Repeated) and column.value is None:
        return 0
    return sum(len(each) if isinstance(each, bytes) else _OF_A_VALUE for each in column if each is not None)
