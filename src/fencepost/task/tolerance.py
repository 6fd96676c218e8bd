"""Retries and tolerance around transforms and converters (`errors.*`, KIP-298)."""

import logging
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from fencepost.api import FatalError, RetriableError, SourceRecord
from fencepost.task.control import Control

log = logging.getLogger(__name__)
T = TypeVar("T")

_FIRST_DELAY_S = 0.3


@dataclass
class ErrorCounters:
    """Totals of `task-error-metrics`."""

    failures: int = 0
    errors: int = 0
    skipped: int = 0
    retries: int = 0
    logged: int = 0
    last_error_ms: int = 0


@dataclass
class Tolerance:
    """Runs an operation on a record: retries what is retriable, then drops the record or fails the task."""

    tolerates_all: bool
    retry_timeout_ms: int
    retry_delay_max_ms: int
    logs: bool
    logs_messages: bool
    control: Control
    task_id: str
    counters: ErrorCounters = field(default_factory=ErrorCounters)

    def run(self, stage: str, operation: Callable[[], T], record: SourceRecord) -> tuple[bool, T | None]:
        """Return (True, result), or (False, None) where the record is dropped. Raises FatalError."""
        try:
            return True, self._retried(operation)
        except Exception as error:
            self._failed(stage, error, record)
            return False, None

    def _retried(self, operation: Callable[[], T]) -> T:
        started, delay_s = time.monotonic(), _FIRST_DELAY_S
        while True:
            try:
                return operation()
            except RetriableError:
                self.counters.failures += 1
                spent_ms = (time.monotonic() - started) * 1000
                is_over = 0 <= self.retry_timeout_ms <= spent_ms
                if is_over or self.control.is_stopping:
                    raise
                self.counters.retries += 1
                self.control.wait_for_stop(min(delay_s, self.retry_delay_max_ms / 1000))
                delay_s *= 2

    def _failed(self, stage: str, error: Exception, record: SourceRecord) -> None:
        self.counters.errors += 1
        self.counters.failures += not isinstance(error, RetriableError)
        self.counters.last_error_ms = int(time.time() * 1000)
        if self.logs:
            self.counters.logged += 1
            log.error("%s", self._described(stage, error, record))
        if not self.tolerates_all:
            raise FatalError("Tolerance exceeded in error handler") from error
        self.counters.skipped += 1

    def _described(self, stage: str, error: Exception, record: SourceRecord) -> str:
        text = f"Error encountered in task {self.task_id}. Executing stage '{stage}'"
        if self.logs_messages:
            text += (
                f", where source record is = {{topic='{record.topic}', partition={record.source_partition}, "
                f"offset={record.source_offset}, timestamp={record.timestamp}}}"
            )
        return f"{text}: {''.join(traceback.format_exception_only(error)).strip()}"
