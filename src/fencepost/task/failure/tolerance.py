"""Retries and tolerance around transforms and converters (`errors.*`, KIP-298), and retries of whole tasks."""

import datetime as dt
import logging
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from fencepost.api import ConnectRecord, FatalError, RetriableError, UnavailableError
from fencepost.api.errors import LaggingError
from fencepost.builtin.transform.chain import RunStep
from fencepost.hook.hosted_task import HostLostError
from fencepost.task.control import Control


def pause_after(failures: int, pauses_s: Sequence[float]) -> float:
    """Return the pause in seconds after a number of failures in a row, from 0 on; the last pause repeats."""
    return pauses_s[min(failures, len(pauses_s) - 1)]


class BackOff:
    """Counts a task's failures in a row, and waits after each. For the task's thread."""

    def __init__(self, control: Control, pauses_s: Sequence[float]) -> None:
        self._control = control
        self._pauses_s = pauses_s
        self.failures = 0

    def failed(self) -> None:
        """Count one more failure."""
        self.failures += 1

    def passed(self) -> None:
        """Reset the count: something was committed, or there was nothing to do."""
        self.failures = 0

    def wait(self) -> None:
        """Wait as long as the failures so far require, or until the task is asked to stop or pause."""
        self._control.back_off(pause_after(self.failures, self._pauses_s))


_MOST_PAUSE_S = 300.0


class _Series(NamedTuple):
    """The failures of one step in a row; `said_s` is when the newest was said, on the monotonic clock."""

    text: str
    kind: type[Exception]
    since: str
    said_s: float
    pause_s: float


class RetriedErrors:
    """The errors that one start of a task retries. For the task's thread, except for `text`."""

    def __init__(self) -> None:
        self._series: dict[str, _Series] = {}  # by step; replaced, as other threads read it

    @property
    def text(self) -> str | None:
        """Return the text about the operation that is tried again, its reason first, or None. Any thread.

        While a step fails it changes when `met` says so.
        """
        found = list(self._series.values())
        return f"{found[-1].text}\n\nFailing since {found[-1].since}, and retrying" if found else None

    def met(self, step: str, error: Exception) -> bool:
        """Record that a step has failed and will be tried again.

        Returns whether to say so: at the first failure in a row, and then at growing intervals, or if it is of another
        kind than the last that was said.
        """
        now, last, kind = time.monotonic(), self._series.get(step), type(error)
        if last is not None and now - last.said_s < last.pause_s and kind is last.kind:
            return False
        since = f"{dt.datetime.now(dt.UTC):%Y-%m-%dT%H:%M:%SZ}" if last is None else last.since
        pause_s = 1.0 if last is None else min(2 * last.pause_s, _MOST_PAUSE_S)
        self._series = {**self._series, step: _Series(text_of(error), kind, since, now, pause_s)}
        return True

    def passed(self, step: str) -> bool:
        """Record that a step has succeeded. Returns whether it had failed before."""
        if step not in self._series:
            return False
        self._series = {each: series for each, series in self._series.items() if each != step}
        return True


def text_of(error: Exception) -> str:
    """Return the text of an error, with its notes."""
    return "; ".join([str(error) or type(error).__name__, *getattr(error, "__notes__", ())])


log = logging.getLogger(__name__)
T = TypeVar("T")

_FIRST_DELAY_S = 0.3
_STEP = "record"


class StoppedInRetryError(Exception):
    """The task was asked to stop while it retried an operation, so the outcome for the record is unknown.

    The record is neither sent nor dropped, nor is its offset committed; the next start polls it again.
    """


@dataclass
class DeadLetterCounters:
    """Totals of records on their way to a dead letter topic."""

    dead_letters: int = 0
    dead_letter_failures: int = 0


@dataclass
class ErrorCounters(DeadLetterCounters):
    """Totals of `task-error-metrics`, and the errors after which the task tries again."""

    failures: int = 0
    errors: int = 0
    skipped: int = 0
    retries: int = 0
    logged: int = 0
    last_error_ms: int = 0
    retried: RetriedErrors = field(default_factory=RetriedErrors)

    def met(self) -> None:
        """Count a record that could not be processed."""
        self.errors += 1
        self.last_error_ms = int(time.time() * 1000)

    def left_out(self, count: int) -> None:
        """Count records that could not be processed and became dead letters."""
        self.errors += count
        self.failures += count
        self.skipped += count
        self.dead_letters += count
        if count:
            self.last_error_ms = int(time.time() * 1000)


@dataclass
class Tolerance:
    """Runs an operation on a record: retries retriable errors, then drops the record or fails the task."""

    tolerates_all: bool
    retry_timeout_ms: int
    retry_delay_max_ms: int
    logs: bool
    logs_messages: bool
    control: Control
    task_id: str
    counters: ErrorCounters = field(default_factory=ErrorCounters)
    tell: Callable[[str, Exception, Any], object] | None = None
    """Called with the stage, the error and the record of each failure, tolerated or not."""

    def run(self, stage: str, operation: Callable[[], T], record: ConnectRecord) -> tuple[bool, T | None]:
        """Return (True, result), or (False, None) if the record is dropped.

        Raises FatalError, which names the record, if its error is not tolerated, or is none of a record (FatalError,
        UnavailableError); StoppedInRetryError; HostLostError, which says nothing about the record.
        """
        return self.run_steps(stage, lambda run_step: run_step(operation), record)

    def run_steps(self, stage: str, operation: Callable[[RunStep], T], record: ConnectRecord) -> tuple[bool, T | None]:
        """Do the same as `run`, for an operation of several steps.

        `operation` gets the function that runs a step. Each step is retried alone, since an earlier one may remember
        that it has seen the record.
        """
        try:
            return True, operation(self._retried)
        except (StoppedInRetryError, HostLostError):
            raise
        except (FatalError, UnavailableError) as error:
            self._count(stage, error, record)
            raise self._fatal(stage, error, record) from error
        except Exception as error:
            self.failed(stage, error, record)
            return False, None

    def _retried(self, operation: Callable[[], T]) -> T:
        started, delay_s = time.monotonic(), _FIRST_DELAY_S
        try:
            while True:
                try:
                    return operation()
                except RetriableError as error:
                    self.counters.failures += 1
                    spent_ms = (time.monotonic() - started) * 1000
                    if self._is_over(error, spent_ms):
                        raise
                    if self.counters.retried.met(_STEP, error) and isinstance(error, UnavailableError):
                        log.warning("%s is waiting, and tries again: %s", self.task_id, error)
                    if self.control.is_stopping:
                        raise StoppedInRetryError(str(error)) from error
                    self.counters.retries += 1
                    self.control.wait_for_stop(min(delay_s, self.retry_delay_max_ms / 1000))
                    delay_s *= 2
        finally:
            if delay_s != _FIRST_DELAY_S:
                self.counters.retried.passed(_STEP)

    def _is_over(self, error: RetriableError, spent_ms: float) -> bool:
        """Say whether an operation is tried no more. 0: no retries, except for errors that no record has caused."""
        if isinstance(error, LaggingError):
            return False
        if self.retry_timeout_ms == 0 and isinstance(error, UnavailableError):
            return False
        return 0 <= self.retry_timeout_ms <= spent_ms

    def failed(self, stage: str, error: Exception, record: ConnectRecord) -> object:
        """Count, log and report a failure. Returns the result of `tell`. Raises FatalError if it is not tolerated."""
        self._count(stage, error, record)
        handled = None if self.tell is None else self.tell(stage, error, record)
        if not self.tolerates_all:
            raise self._fatal(stage, error, record) from error
        self.counters.skipped += 1
        return handled

    def _count(self, stage: str, error: Exception, record: ConnectRecord) -> None:
        self.counters.met()
        self.counters.failures += not isinstance(error, RetriableError)
        if self.logs:
            self.counters.logged += 1
            log.error("%s", self._described(stage, error, record))

    def _fatal(self, stage: str, error: Exception, record: ConnectRecord) -> FatalError:
        return FatalError(
            f"Tolerance exceeded in error handler: stage '{stage}' failed for the record for {record.origin}: "
            f"{_one_line(error)}"
        )

    def _described(self, stage: str, error: Exception, record: ConnectRecord) -> str:
        text = f"Error encountered in task {self.task_id}. Executing stage '{stage}'"
        if self.logs_messages:
            text += f", where {record.described}"
        return f"{text}: {_one_line(error)}"


def _one_line(error: Exception) -> str:
    return "".join(traceback.format_exception_only(error)).strip()
