"""The host for tasks of DataFrame connectors: each has a driver thread that runs one split, or epoch, after the other.

A split, or a few small ones together, is one Spark job with one partition, so a slow split delays no other task
(docs/decisions). Its executor initialises its producer, gets admitted and reads the position like any task, through
this host's part of the channel.
"""

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fencepost.api import RetriableError
from fencepost.spark.slot.cores import CoreLedger
from fencepost.spark.slot.ended import ProcessEnds
from fencepost.storage.ids import TaskId
from fencepost.storage.offset_copies import OffsetCopy
from fencepost.storage.offset_topic import encode_key
from fencepost.task.channel.message import Path
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
)
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control
from fencepost.worker.channel import Handler, RefusedError
from fencepost.worker.host.frame_jobs import FrameRuntime
from fencepost.worker.host.frame_life import PASSING, FrameLife
from fencepost.worker.supervision.admission import Admissions
from fencepost.worker.supervision.offset_copying import OffsetCopying
from fencepost.worker.supervision.port import HostEvents, NoRoomError

if TYPE_CHECKING:
    from fencepost.worker.host.frame_task import Run


class DataFrameHost:
    """A `TaskHost` for DataFrame connectors, and the channel's `/split/…`."""

    def __init__(
        self,
        events: HostEvents,
        ledger: CoreLedger,
        admissions: Admissions,
        connector_of: Callable[[str], type[Any]],
        channel_url: str,
        copying: OffsetCopying,
        ends: ProcessEnds,
    ) -> None:
        self._copying = copying
        self.ends = ends
        self.events = events
        self.ledger = ledger
        self.admissions = admissions
        self.connector_of = connector_of
        self.channel_url = channel_url
        self._runtime: FrameRuntime | None = None
        self._lock = threading.Lock()
        self._tasks: dict[str, FrameLife] = {}
        self._runs: dict[str, Run] = {}
        self._readings: dict[str, EpochReading] = {}

    def attach(self, runtime: FrameRuntime | None) -> None:
        """Use a Spark that is ready; None if Spark is gone with everything that runs on it: the tasks start again."""
        lost: list[FrameLife] = []
        with self._lock:
            self._runtime = runtime
            if runtime is None:
                lost = list(self._tasks.values())
                self._tasks.clear()
        for task in lost:
            task.lost()
        if lost:
            self.events.lost([task.spec.incarnation for task in lost], "Spark has gone")
        self.events.room_changed()

    # TaskHost

    def start(self, spec: TaskSpec) -> None:
        runtime = self._runtime
        if runtime is None:
            raise NoRoomError("Spark is still starting")
        refusal = self.ledger.refusal_of_splits()
        if refusal is not None:
            raise NoRoomError(refusal)
        task = self._task(spec, runtime)
        with self._lock:
            if self._runtime is not runtime:
                raise NoRoomError("Spark is restarting")
            self._tasks[spec.incarnation] = task
        task.thread.start()

    def stop(self, incarnation: str) -> None:
        self._control(incarnation, Control.stop)

    def pause(self, incarnation: str) -> None:
        self._control(incarnation, Control.pause)

    def resume(self, incarnation: str) -> None:
        self._control(incarnation, Control.resume)

    def abandon(self, incarnation: str) -> Sequence[str]:
        """Cancel the running split; the next holder of its transactional id ends its transaction."""
        with self._lock:
            task = self._tasks.pop(incarnation, None)
        if task is not None:
            task.abandon()
        return ()

    def _control(self, incarnation: str, act: Callable[[Control], None]) -> None:
        with self._lock:
            task = self._tasks.get(incarnation)
        if task is not None:
            act(task.control)

    def _task(self, spec: TaskSpec, runtime: FrameRuntime) -> FrameLife:
        """Return a task, not started. The first one imports PySpark, unless Spark's start has done so."""
        from fencepost.worker.host.epoch_stream_task import EpochStreamTask
        from fencepost.worker.host.epoch_task import EpochTask
        from fencepost.worker.host.frame_task import FrameTask

        life = EpochStreamTask if spec.is_stream else EpochTask if spec.is_sink else FrameTask
        return life(self, spec, runtime)

    # the channel

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
        }

    def add_run(self, run: "Run") -> str:
        """Register a run with the channel; its id has no further meaning for an executor."""
        name = uuid.uuid4().hex
        with self._lock:
            self._runs[name] = run
        return name

    def remove_run(self, name: str) -> None:
        with self._lock:
            self._runs.pop(name, None)

    def add_reading(self, reading: EpochReading) -> str:
        """Register how executors read an epoch; the name has no further meaning for an executor."""
        name = uuid.uuid4().hex
        with self._lock:
            self._readings[name] = reading
        return name

    def remove_reading(self, name: str) -> None:
        with self._lock:
            self._readings.pop(name, None)

    def ended(self, incarnation: str) -> None:
        with self._lock:
            self._tasks.pop(incarnation, None)

    def _run(self, name: str) -> "Run":
        with self._lock:
            run = self._runs.get(name)
        if run is None:
            raise RefusedError(f"run {name} has ended")
        return run

    @contextmanager
    def _noting(self, name: str) -> Iterator["Run"]:
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
            topic=run.task.topic,
            offsets_topic=spec.output.offsets_topic,
            offset_keys=tuple(encode_key(spec.connector, split.partition) for split in run.splits),
            transactional_id=spec.output.transactional_id,
            rows_per_commit=run.rows_per_commit,
            forget=tuple(run.forget),
            copies_offsets=spec.output.copies_offsets,
            chooses_client=spec.output.chooses_client,
        ).to_json()

    def _admit(self, body: dict[str, Any]) -> dict[str, Any]:
        with self._noting(RunRequest.from_json(body).run) as run:
            admission = run.task.admit()
        positions = run.task.positions(admission, run.splits)
        return SplitAdmission(admission.is_admitted, admission.reason, tuple(positions)).to_json()

    def _unchanged(self, body: dict[str, Any]) -> dict[str, Any]:
        with self._noting(RunRequest.from_json(body).run) as run:
            return SplitUnchanged(all(run.task.is_unchanged(split) for split in run.splits)).to_json()

    def _copy(self, body: dict[str, Any]) -> dict[str, Any]:
        message = SplitCopies.from_json(body)
        with self._noting(message.run) as run:
            self.copy(run.task.spec, message.copies)
        return {}

    def copy(self, spec: TaskSpec, copies: Sequence[OffsetCopy]) -> None:
        """Copy a task's offsets to the worker's topic; returns once they are acknowledged."""
        self._copying.copy(TaskId(spec.connector, spec.task), spec.incarnation, copies)

    def _report(self, body: dict[str, Any]) -> dict[str, Any]:
        message = SplitReport.from_json(body)
        run = self._run(message.run)
        run.rows, run.is_skipped = message.rows, message.skipped
        return {}

    def _expired(self, body: dict[str, Any]) -> dict[str, Any]:
        message = SplitExpiry.from_json(body)
        self._run(message.run).expired_s = message.after_s
        return {}

    def _temporary_failure(self, body: dict[str, Any]) -> dict[str, Any]:
        message = TemporaryFailure.from_json(body)
        self._run(message.run).error = RetriableError(message.reason)
        return {}

    def _reading(self, body: dict[str, Any]) -> dict[str, Any]:
        name = RunRequest.from_json(body).run
        with self._lock:
            reading = self._readings.get(name)
        if reading is None:
            raise RefusedError(f"epoch {name} has ended")
        return reading.to_json()
