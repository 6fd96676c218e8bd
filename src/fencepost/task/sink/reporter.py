"""Reports records that could not be processed to the dead letter topic, if there is one."""

from concurrent.futures import Future
from typing import Protocol

from fencepost.api import SinkRecord
from fencepost.task.failure.dead_letter import class_of
from fencepost.task.sink.processing import SinkProcessor

_PUT = "TASK_PUT"


class Taker(Protocol):
    """Takes dead letters: `DeadLetters`."""

    def add(self, record: SinkRecord, stage: str, class_name: str, error: Exception) -> "Future[None]": ...


class Reporter:
    """The `ErrantRecordReporter` of a task, and the receiver of failures from its error handling."""

    def __init__(self, processor: SinkProcessor, dead_letters: Taker | None) -> None:
        self._processor = processor
        self._dead_letters = dead_letters

    def report(self, record: SinkRecord, error: Exception) -> "Future[None]":
        written = self._processor.tolerance.failed(_PUT, error, self._read(record))
        assert isinstance(written, Future)
        return written

    def left_out(self, record: SinkRecord, stage: str, error: Exception) -> None:
        """Report a record that another process could not convert, or transform, and has dropped."""
        self._processor.tolerance.failed(stage, error, self._read(record))

    def _read(self, record: SinkRecord) -> SinkRecord:
        """Return what a dead letter needs. Without one, nothing is converted: a converter may register a schema."""
        return record if self._dead_letters is None else self._processor.raw_of(record)

    def tell(self, stage: str, error: Exception, record: SinkRecord) -> "Future[None]":
        """Pass on a record whose key, value and headers are bytes. The future is done once it is safe."""
        if self._dead_letters is None:
            done: Future[None] = Future()
            done.set_result(None)
            return done
        return self._dead_letters.add(record, stage, class_of(self._processor, stage, error), error)
