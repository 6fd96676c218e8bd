"""The channel's `/split/…`: what executors ask and report about the runs and epochs that they work on."""

import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from fencepost.api import RetriableError, Split
from fencepost.record import HeaderBytes
from fencepost.storage.change import TaskId
from fencepost.storage.offset_copies import OffsetCopy
from fencepost.storage.offset_topic import encode_key
from fencepost.task.channel.message import Admission, Path
from fencepost.task.channel.split_message import (
    EpochReading,
    RunRequest,
    SplitAdmission,
    SplitCopies,
    SplitExpiry,
    SplitReport,
    SplitRun,
    SplitUnchanged,
    TemporaryFailure,
    Whereabouts,
)
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.worker.channel import Handler, RefusedError
from fencepost.worker.host.frame.task import PASSING
from fencepost.worker.supervision.offset import OffsetCopying

_NEW_S = 15.0


@dataclass(frozen=True)
class Written:
    """What an executor has reported: the rows of each split. `is_skipped`: an earlier run had written them.

    `commit_s`: how long the last commit took, which had ended at `at_s` of `time.monotonic`.
    """

    rows: tuple[int, ...]
    is_skipped: bool
    commit_s: float
    at_s: float


class RunningTask(Protocol):
    spec: TaskSpec

    def topic_of(self, split: Split) -> str: ...

    def admit(self) -> Admission: ...

    def positions(self, admission: Admission, splits: Sequence[Split]) -> list[dict[str, Any] | None]: ...

    def is_unchanged(self, split: Split) -> bool: ...


@dataclass
class Run:
    """One run of one split, or of several together. `written` is known once it is committed.

    `rows_per_commit`: after how many rows a part is committed; 0: no parts. `expired_s`: how long its transaction was
    open, if the broker timed it out. `error`: a passing error of an executor, or of the worker on its behalf.
    """

    task: RunningTask
    splits: tuple[Split, ...]
    forget: tuple[bytes, ...]
    rows_per_commit: int = 0
    written: Written | None = None
    expired_s: float | None = None
    error: Exception | None = None
    headers: tuple[HeaderBytes, ...] = ()

    @property
    def topic(self) -> str:
        """Return the topic of all rows: splits that share a run have the same one."""
        return self.task.topic_of(self.splits[0])


class SplitChannel:
    """Any thread. `url` is where executors find the channel."""

    def __init__(self, url: str, copying: OffsetCopying) -> None:
        self.url = url
        self._copying = copying
        self._lock = threading.Lock()
        self._entries: dict[str, Run | EpochReading] = {}
        self._told: dict[str, dict[str, tuple[float, Whereabouts]]] = {}  # by run and place, with when

    def handlers(self) -> dict[str, Handler]:
        """Return the handlers of the channel, by path."""
        return {
            Path.SPLIT_SPEC: self._spec,
            Path.SPLIT_ADMIT: self._admit,
            Path.SPLIT_UNCHANGED: self._unchanged,
            Path.SPLIT_COPY: self._copy,
            Path.SPLIT_REPORT: self._report,
            Path.SPLIT_EXPIRED: self._expired,
            Path.SPLIT_TEMPORARY_FAILURE: self._temporary_failure,
            Path.EPOCH_READING: self._reading,
            Path.RUN_WHEREABOUTS: self._take_whereabouts,
        }

    def add(self, entry: Run | EpochReading) -> str:
        """Let executors ask about a run, or how they read an epoch, by a name without further meaning for them."""
        name = uuid.uuid4().hex
        with self._lock:
            self._entries[name] = entry
        return name

    def remove(self, name: str) -> None:
        with self._lock:
            self._entries.pop(name, None)
            self._told.pop(name, None)

    def whereabouts(self, name: str) -> Sequence[Whereabouts]:
        """Return where those were in the last seconds who work on a run, or an epoch, for long."""
        now = time.monotonic()
        with self._lock:
            return [told for at, told in self._told.get(name, {}).values() if now - at < _NEW_S]

    def copy(self, spec: TaskSpec, copies: Sequence[OffsetCopy]) -> None:
        """Copy a task's offsets to the worker's topic; returns once they are acknowledged."""
        self._copying.copy(TaskId(spec.connector, spec.task), spec.incarnation, copies)

    def _run(self, name: str) -> Run:
        with self._lock:
            run = self._entries.get(name)
        if run is None or isinstance(run, EpochReading):
            raise RefusedError(f"run {name} has ended")
        return run

    @contextmanager
    def _noting(self, name: str) -> Iterator[Run]:
        """Keep a passing error for the task's thread: the executor returns only its text."""
        run = self._run(name)
        try:
            yield run
        except PASSING as error:
            run.error = error
            raise

    def _spec(self, body: dict[str, Any]) -> dict[str, Any]:
        name = RunRequest.from_json(body).run
        run = self._run(name)
        spec = run.task.spec
        return SplitRun(
            run=name,
            producer_conf=spec.output.producer_conf,
            topic=run.topic,
            offsets_topic=spec.output.offsets_topic,
            offset_keys=tuple(encode_key(spec.connector, split.partition) for split in run.splits),
            transactional_id=spec.output.transactional_id,
            rows_per_commit=run.rows_per_commit,
            forget=tuple(run.forget),
            copies_offsets=spec.output.copies_offsets,
            chooses_client=spec.output.chooses_client,
            offset=run.splits[0].offset,
        ).to_json()

    def _admit(self, body: dict[str, Any]) -> dict[str, Any]:
        with self._noting(RunRequest.from_json(body).run) as run:
            admission = run.task.admit()
            positions = run.task.positions(admission, run.splits)
        return SplitAdmission(admission.is_admitted, admission.reason, tuple(positions), run.headers).to_json()

    def _unchanged(self, body: dict[str, Any]) -> dict[str, Any]:
        with self._noting(RunRequest.from_json(body).run) as run:
            return SplitUnchanged(all(run.task.is_unchanged(split) for split in run.splits)).to_json()

    def _copy(self, body: dict[str, Any]) -> dict[str, Any]:
        message = SplitCopies.from_json(body)
        with self._noting(message.run) as run:
            self.copy(run.task.spec, message.copies)
        return {}

    def _report(self, body: dict[str, Any]) -> dict[str, Any]:
        message = SplitReport.from_json(body)
        self._run(message.run).written = Written(message.rows, message.skipped, message.commit_s, time.monotonic())
        return {}

    def _expired(self, body: dict[str, Any]) -> dict[str, Any]:
        message = SplitExpiry.from_json(body)
        self._run(message.run).expired_s = message.after_s
        return {}

    def _temporary_failure(self, body: dict[str, Any]) -> dict[str, Any]:
        message = TemporaryFailure.from_json(body)
        self._run(message.run).error = RetriableError(message.reason)
        return {}

    def _take_whereabouts(self, body: dict[str, Any]) -> dict[str, Any]:
        message = Whereabouts.from_json(body)
        with self._lock:
            if message.run not in self._entries:
                raise RefusedError(f"run {message.run} has ended")
            self._told.setdefault(message.run, {})[message.place] = (time.monotonic(), message)
        return {}

    def _reading(self, body: dict[str, Any]) -> dict[str, Any]:
        name = RunRequest.from_json(body).run
        with self._lock:
            reading = self._entries.get(name)
        if not isinstance(reading, EpochReading):
            raise RefusedError(f"epoch {name} has ended")
        return reading.to_json()
