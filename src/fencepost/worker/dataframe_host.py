"""The second door: tasks of DataFrame connectors, each a driver thread that runs one split after the other.

A split is one Spark job of one partition, so a slow split holds up nobody (docs/decisions). Its executor does init,
admission and reading of the position like any task, through this host's part of the channel.
"""

import logging
import threading
import time
import traceback
import uuid
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fencepost.api import DataFrameConnector, RecordError, Split
from fencepost.api.dataframe import DataFrame
from fencepost.config.connector import SourceConnectorConfig
from fencepost.spark.cores import CoreLedger, CoreUse, NoCoreError
from fencepost.spark.splits import SplitReader, cancel_run, is_unreadable, run_split
from fencepost.storage.ids import TaskId
from fencepost.storage.offset_topic import encode_key
from fencepost.task.control import Control
from fencepost.task.offsets import partition_key
from fencepost.task.spec import Admission, RunState, TaskReport, TaskSpec
from fencepost.worker.admission import Admissions
from fencepost.worker.channel import Handler, RefusedError
from fencepost.worker.host import HostEvents, NoRoomError

log = logging.getLogger(__name__)

_MOST_FAILURES = 5
_BACK_OFF_S = 1.0


class Runtime(Protocol):
    """What is needed of `SparkRuntime`."""

    @property
    def session(self) -> Any: ...

    def adopt_thread(self) -> None: ...


@dataclass
class _Run:
    """One run of one split."""

    task: "_FrameTask"
    split: Split
    forget: tuple[bytes, ...]
    rows: int = 0
    is_reported: bool = False
    is_skipped: bool = False


class DataFrameHost:
    """A `TaskHost` for DataFrame connectors, and the channel's `/split/…`."""

    def __init__(
        self,
        events: HostEvents,
        ledger: CoreLedger,
        admissions: Admissions,
        connector_of: Callable[[str], type[Any]],
        channel_url: Callable[[], str],
    ) -> None:
        self.events = events
        self.ledger = ledger
        self.admissions = admissions
        self.connector_of = connector_of
        self.channel_url = channel_url
        self.runtime: Runtime | None = None
        self._lock = threading.Lock()
        self._tasks: dict[str, _FrameTask] = {}
        self._runs: dict[str, _Run] = {}

    def attach(self, runtime: Runtime | None) -> None:
        """Spark is ready, or gone (None)."""
        self.runtime = runtime
        self.events.room_changed()

    # TaskHost

    def start(self, spec: TaskSpec) -> None:
        if self.runtime is None:
            raise NoRoomError("Spark is still starting")
        task = _FrameTask(self, spec)
        with self._lock:
            self._tasks[spec.incarnation] = task
        task.thread.start()

    def stop(self, incarnation: str) -> None:
        self._control(incarnation, Control.stop)

    def pause(self, incarnation: str) -> None:
        self._control(incarnation, Control.pause)

    def resume(self, incarnation: str) -> None:
        self._control(incarnation, Control.resume)

    def abandon(self, incarnation: str) -> Sequence[str]:
        """Cancel the split that runs; its transaction is ended by whoever takes the id next."""
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

    # the channel

    def handlers(self) -> dict[str, Handler]:
        """Return the handlers of the channel, by path."""
        return {
            "/split/spec": self._spec,
            "/split/admit": self._admit,
            "/split/unchanged": self._unchanged,
            "/split/report": self._report,
        }

    def add_run(self, run: _Run) -> str:
        """Make a run known to the channel; its id tells an executor nothing else."""
        name = uuid.uuid4().hex
        with self._lock:
            self._runs[name] = run
        return name

    def remove_run(self, name: str) -> None:
        with self._lock:
            self._runs.pop(name, None)

    def ended(self, incarnation: str) -> None:
        with self._lock:
            self._tasks.pop(incarnation, None)

    def _run(self, body: dict[str, Any]) -> _Run:
        with self._lock:
            run = self._runs.get(body["run"])
        if run is None:
            raise RefusedError(f"run {body['run']} is over")
        return run

    def _spec(self, body: dict[str, Any]) -> dict[str, Any]:
        run = self._run(body)
        spec = run.task.spec
        return {
            "run": body["run"],
            "producer_conf": dict(spec.producer_conf),
            "topic": run.task.topic,
            "offsets_topic": spec.offsets_topic,
            "offset_key": encode_key(spec.connector, run.split.partition).decode(),
            "transactional_id": spec.transactional_id,
            "rows_per_commit": run.task.rows_per_commit(run.split),
            "forget": [key.decode() for key in run.forget],
        }

    def _admit(self, body: dict[str, Any]) -> dict[str, Any]:
        run = self._run(body)
        admission = run.task.admit()
        position = run.task.position(admission, run.split)
        return {"is_admitted": admission.is_admitted, "reason": admission.reason, "position": position}

    def _unchanged(self, body: dict[str, Any]) -> dict[str, Any]:
        run = self._run(body)
        return {"is_unchanged": run.task.is_unchanged(run.split)}

    def _report(self, body: dict[str, Any]) -> dict[str, Any]:
        run = self._run(body)
        run.rows, run.is_skipped, run.is_reported = body["rows"], body["skipped"], True
        return {}


class _FrameTask:
    """One start of a task of a DataFrame connector: plans, and runs the splits that are its own."""

    def __init__(self, host: DataFrameHost, spec: TaskSpec) -> None:
        assert host.runtime is not None
        self.spec = spec
        self.control = Control(is_paused=spec.target_state == "PAUSED")
        self._host = host
        self._runtime = host.runtime
        properties = {k: v for k, v in spec.connector_config.items() if v is not None}
        cls = host.connector_of(properties["connector.class"])
        self._connector: DataFrameConnector = cls(dict(spec.task_config))
        self._tasks = SourceConnectorConfig(properties).tasks_max
        self._tolerates_errors = SourceConnectorConfig(properties).errors_tolerance.lower() == "all"
        self._reader = SplitReader(self._connector, properties)
        self._is_abandoned = False
        self._current: str | None = None
        self._state = RunState.STARTING
        self._failures = 0
        self._set_aside: set[Any] = set()
        self._counters = {"records_polled": 0.0, "records_written": 0.0, "commits": 0.0, "batches": 0.0}
        self.thread = threading.Thread(target=self._run, name=f"frame-{spec.id}", daemon=True)

    @property
    def topic(self) -> str:
        return str(self._connector.topic)  # type: ignore[attr-defined]

    def rows_per_commit(self, split: Split) -> int:
        """Return after how many rows a split is committed in part; 0 where that would not be exact."""
        return int(self._reader.rows_per_commit(self._runtime.session, split))

    def admit(self) -> Admission:
        return self._host.admissions.decide(
            TaskId(self.spec.connector, self.spec.task), self.spec.generation, self.spec.incarnation
        )

    def position(self, admission: Admission, split: Split) -> dict[str, Any] | None:
        own = partition_key(split.partition)
        return next((dict(o) for p, o in admission.offsets if partition_key(p) == own), None)

    def is_unchanged(self, split: Split) -> bool:
        return self._connector.is_unchanged(self._runtime.session, split)

    def abandon(self) -> None:
        self._is_abandoned = True
        self.control.stop()
        current = self._current
        if current is not None:
            cancel_run(self._runtime, current)

    # the task's thread

    def _run(self) -> None:
        try:
            self._runtime.adopt_thread()
            self._loop()
            self._say(RunState.STOPPED)
        except _NotAdmittedError as error:
            self._say(RunState.ABANDONED, str(error))
        except Exception as error:
            if not self._is_abandoned:
                log.exception("task %s failed", self.spec.id)
            self._say(RunState.FAILED, "".join(traceback.format_exception(error)))
        finally:
            self._host.ended(self.spec.incarnation)

    def _loop(self) -> None:
        while not self.control.is_stopping:
            if self.control.is_paused:
                self._say(RunState.PAUSED)
                self.control.wait_while_paused()
                continue
            if self._state is not RunState.RUNNING:
                self._say(RunState.RUNNING)
            if not self._turn():
                self.control.wait(getattr(self._connector, "poll_interval_ms", 1000) / 1000)

    def _turn(self) -> bool:
        """Plan, and run what is there. Returns whether there was anything."""
        admission = self.admit()
        if not admission.is_admitted:
            raise _NotAdmittedError(admission.reason)
        session = self._runtime.session
        planned = [s for s in self._connector.splits(session) if self._is_mine(s)]
        positions = {partition_key(p): o for p, o in admission.offsets}
        forget = self._finish_done(planned, positions)
        todo = [s for s in planned if not positions.get(partition_key(s.partition), {}).get("done")]
        todo = [s for s in todo if partition_key(s.partition) not in self._set_aside]
        for split in sorted(todo, key=lambda s: s.order):
            if self.control.should_yield:
                return True
            self._run_split(split, forget)
            forget = ()
        return bool(todo)

    def _is_mine(self, split: Split) -> bool:
        """Within a task generation a split belongs to one task, so it has one transactional id."""
        key = encode_key(self.spec.connector, split.partition)
        return zlib.crc32(key) % self._tasks == self.spec.task

    def _finish_done(self, planned: Sequence[Split], positions: dict[Any, Any]) -> tuple[bytes, ...]:
        """Repeat `finished` for what was committed before a crash; return the keys of what can be forgotten."""
        gone = []
        for split in planned:
            offset = positions.get(partition_key(split.partition)) or {}
            is_done = bool(offset.get("done"))
            if is_done and self._connector.finished(self._runtime.session, split, int(offset.get("rows", 0))):
                gone.append(encode_key(self.spec.connector, split.partition))
        present = {partition_key(s.partition) for s in planned}
        for key, offset in positions.items():
            split = Split(dict(key))
            if key not in present and offset.get("done") and self._is_mine(split) and self._is_gone(split):
                gone.append(encode_key(self.spec.connector, dict(key)))
        return tuple(dict.fromkeys(gone))

    def _is_gone(self, split: Split) -> bool:
        return not self._connector.is_unchanged(self._runtime.session, split)

    def _run_split(self, split: Split, forget: tuple[bytes, ...]) -> None:
        run = _Run(self, split, forget)
        name = self._host.add_run(run)
        self._current = name
        try:
            self._with_core(lambda: run_split(self._runtime, self._frame(split), self._host.channel_url(), name))
        except Exception as error:
            self._split_failed(split, error)
            return
        finally:
            self._current = None
            self._host.remove_run(name)
        self._failures = 0
        self._count(run)
        self._connector.finished(self._runtime.session, split, run.rows)

    def _frame(self, split: Split) -> DataFrame:
        return self._reader.frame(self._runtime.session, split)

    def _with_core(self, act: Callable[[], None]) -> None:
        """Hold a core for the Spark job, so that slots and splits never wait for each other for ever."""
        while True:
            try:
                self._host.ledger.take(1, CoreUse.SPLIT)
                break
            except NoCoreError as error:
                log.info("task %s waits: %s", self.spec.id, error)
                if self.control.wait(0.5):
                    raise
        try:
            act()
        finally:
            self._host.ledger.release(1, CoreUse.SPLIT)

    def _split_failed(self, split: Split, error: Exception) -> None:
        if self.control.is_stopping or self._is_abandoned:
            return
        if isinstance(error, RecordError) or is_unreadable(error):
            log.error("task %s sets aside %s: %s", self.spec.id, dict(split.partition), error)
            self._connector.set_aside(self._runtime.session, split, error)
            self._set_aside.add(partition_key(split.partition))
            self._counters["error_errors"] = self._counters.get("error_errors", 0.0) + 1
            return
        self._failures += 1
        if self._failures >= _MOST_FAILURES:
            raise error
        log.warning("task %s runs %s again: %s", self.spec.id, dict(split.partition), error)
        self.control.wait(_BACK_OFF_S * self._failures)

    def _count(self, run: _Run) -> None:
        if not run.is_skipped:
            self._counters["records_polled"] += run.rows
            self._counters["records_written"] += run.rows
            self._counters["commits"] += 1
            self._counters["batches"] += 1
        self._say(self._state)

    def _say(self, state: RunState, trace: str | None = None) -> None:
        self._state = state
        if self._is_abandoned:
            return
        report = TaskReport(
            self.spec.connector,
            self.spec.task,
            self.spec.incarnation,
            state.value,
            trace,
            {**self._counters, "at": time.time()},
            (self.topic,) if self._counters["records_written"] else (),
        )
        self._host.events.reported([report])


class _NotAdmittedError(Exception):
    pass
