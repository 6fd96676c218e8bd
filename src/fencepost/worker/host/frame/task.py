"""What DataFrame tasks have in common: a driver thread, its states, its failures in a row, and a core for each job."""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from fencepost.api import FatalError, RetriableError
from fencepost.config import ConfigError
from fencepost.config.reference import RawConfig, given_values
from fencepost.config.worker import WorkerConfig
from fencepost.kafka.errors import KafkaRequestError
from fencepost.plugin.secret_keys import hold_given_secrets
from fencepost.secret.known import hold
from fencepost.spark.slot.cores import CoreLedger, CoreUse, NoCoreError
from fencepost.spark.slot.job import ProcessEnds
from fencepost.storage.change import TargetState, TaskId
from fencepost.storage.offset_copies import OffsetCopy
from fencepost.task.channel.message import Admission, RunState
from fencepost.task.channel.split_message import Whereabouts
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control
from fencepost.task.failure.tolerance import BackOff, text_of
from fencepost.task.start.progress import ProgressWatch
from fencepost.task.start.run import Counters
from fencepost.task.start.runner import NotAdmittedError, report_of
from fencepost.task.tracing.exports import spans_dropped, tracing_of
from fencepost.task.tracing.tracing import Tracing
from fencepost.telemetry.traces import trace_of
from fencepost.worker.host.frame.jobs import FrameJobs, SparkWork
from fencepost.worker.supervision.admission import Admissions
from fencepost.worker.supervision.port import HostEvents

if TYPE_CHECKING:
    from fencepost.spark.session.session import SparkRuntime

log = logging.getLogger(__name__)

_TURN = "turn"
_MOST_FAILURES = 5
BACK_OFF_S = 1.0
_PAUSES_S = (BACK_OFF_S, BACK_OFF_S, 2.0, 3.0, 4.0)
PASSING = (RetriableError, OSError)
"""Errors of Kafka, a network or a file system that is unavailable for a while."""


class FrameStatus:
    """Reports a task: for its own thread, and for the one that watches whether it moves. Thread-safe.

    `waits_for` is shown in the task's status while it runs; once `is_silent`, nothing is reported."""

    def __init__(
        self,
        progress: ProgressWatch,
        counters: Callable[[], Counters],
        publish: Callable[[str | None, Mapping[str, float]], None],
    ) -> None:
        """`publish` sends the task's report with a trace, and with further counters."""
        self.waits_for: str | None = None
        self.is_silent = False
        self._progress = progress
        self._counters = counters
        self._send = publish
        self._lock = threading.Lock()
        self._said: Any = (None, None)

    def report(self, state: RunState, trace: str | None = None) -> None:
        """Report a state, and its trace. After the last one nothing follows."""
        with self._lock:
            self._counters().state = state
            self._progress.trace = self.waits_for if state is RunState.RUNNING else trace
            self._publish(self._progress.of(state, self._retried))
            if state.is_over:  # `abandon` may set it at the same moment
                self.is_silent = True

    def look(self, spark: str | None) -> None:
        """Report whether the task stands still, and what is said of its Spark, if either has changed."""
        with self._lock:
            state = self._counters().state
            trace, counters = self._progress.of(state, self._retried)
            of_spark = spark if state is RunState.RUNNING else None
            said = "\n\n".join(filter(None, (trace, of_spark))) or None, counters
            if said != self._said:
                self._publish(said)

    @property
    def _retried(self) -> str | None:
        return self._counters().errors.retried.text

    def _publish(self, said: tuple[str | None, dict[str, float]]) -> None:
        self._said = said
        if not self.is_silent:
            self._send(*said)


class FrameChannel(Protocol):
    """The part of `SplitChannel` that is needed here."""

    url: str

    def add(self, entry: Any) -> str: ...

    def remove(self, name: str) -> None: ...

    def whereabouts(self, name: str) -> Sequence[Whereabouts]: ...

    def copy(self, spec: TaskSpec, copies: Sequence[OffsetCopy]) -> None: ...


class FrameHost(Protocol):
    """What a task needs of its host."""

    worker: WorkerConfig
    events: HostEvents
    ledger: CoreLedger
    admissions: Admissions
    connector_of: Callable[[RawConfig], type[Any]]
    ends: ProcessEnds

    @property
    def channel(self) -> FrameChannel: ...

    def ended(self, incarnation: str) -> None: ...


class FrameTask(ABC):
    """One start of a task whose driver thread works turn after turn until it is asked to stop."""

    counters: Counters

    def __init__(self, host: FrameHost, spec: TaskSpec, runtime: "SparkRuntime") -> None:
        self.spec = spec
        self.control = Control(is_paused=spec.target_state == TargetState.PAUSED.value)
        self._properties = given_values(spec.connector_config)
        self._connector: Any = host.connector_of(self._properties)(dict(spec.task_config))
        self._host = host
        self._runtime = runtime
        self._back_off = BackOff(self.control, _PAUSES_S)
        self._jobs = FrameJobs(runtime, spec.id)
        self.work = SparkWork(spec, self.control, self._jobs, lambda run: host.channel.whereabouts(run))
        progress = ProgressWatch(spec, self.control, self._working_thread, lambda: self.work)
        self._status = FrameStatus(progress, lambda: self.counters, self._send_report)
        self.thread = threading.Thread(target=self._run, name=f"frame-{spec.id}", daemon=True)

    @abstractmethod
    def _turn(self) -> bool:
        """Do one piece of work. Returns whether there was any."""

    @abstractmethod
    def _rest(self) -> None:
        """Wait a while, after a turn without work."""

    def _working_thread(self) -> threading.Thread:
        return self.thread

    @cached_property
    def tracing(self) -> Tracing:
        """Made in the task's thread: the first one of a process imports a library."""
        return tracing_of(self.spec)

    @property
    def _is_abandoned(self) -> bool:
        return self._status.is_silent

    @property
    def _is_well(self) -> bool:
        """Say whether a turn without an error means that earlier failures are over."""
        return True

    def _stay_paused(self) -> None:
        """Return once the task is resumed, or asked to stop."""
        self.control.wait_while_paused()

    def _settle(self) -> None:
        """End what others would wait for, if needed: before a pause, and after a failure."""

    def _is_left_open(self) -> str | None:
        """Return the status text of a paused task with unfinished work that continues when it is resumed."""
        return None

    def _close(self) -> None:
        """Release what the task holds. Called once, before the last report."""

    def _topics_used(self) -> Sequence[str]:
        return ()

    def _figures(self) -> str:
        """Return the task's own measurements, as `TaskReport.figures` has them."""
        return ""

    def admit(self) -> Admission:
        """Ask whether this start is still the one to run."""
        return self._host.admissions.decide(
            TaskId(self.spec.connector, self.spec.task), self.spec.generation, self.spec.incarnation
        )

    def abandon(self) -> None:
        """End it without waiting. Its Spark jobs are cancelled in a separate thread, as Spark's JVM may hang.

        Code that hangs outside of Spark uses no core, and may never return: others can have the core.
        """
        self._status.is_silent = True
        self.control.stop()
        self._jobs.cancel_apart()
        self._release_core()

    def lost(self) -> None:
        """Spark is gone: the thread ends by itself, and reports nothing more."""
        self._status.is_silent = True
        self.control.stop()
        self._release_core()

    # the task's thread

    def _run(self) -> None:
        """Run to the last report. Authors' code may raise more than Exception: sys.exit(), CancelledError, a panic."""
        references, stored = self.spec.look_up.references, self.spec.unresolved()
        forget = hold(() if references is None else references.values)
        forget_given = hold_given_secrets({**stored.task_config, **stored.connector_config})
        try:
            state, trace = self._run_to_the_end()
            try:
                self._close()
            except BaseException as error:
                log.exception("task %s: an error after its end", self.spec.id)
                if state is RunState.STOPPED:
                    state, trace = RunState.FAILED, trace_of(error)
            self._report_end(state, trace)
        finally:
            self._host.ended(self.spec.incarnation)
            forget()
            forget_given()

    def _run_to_the_end(self) -> tuple[RunState, str | None]:
        try:
            self._loop()
        except NotAdmittedError as error:
            return RunState.ABANDONED, str(error)
        except BaseException as error:
            if not self._is_abandoned:
                self._settle()
            return RunState.FAILED, trace_of(error)
        return RunState.STOPPED, None

    def _loop(self) -> None:
        while not self.control.is_stopping:
            self.control.move()
            if self.control.is_paused:
                self.counters.errors.retried.passed(_TURN)
                self._settle()
                self._report(RunState.PAUSED, self._is_left_open())
                self._stay_paused()
                continue
            try:
                self._jobs.adopt_thread()
                if self.counters.state is not RunState.RUNNING:
                    self._report(RunState.RUNNING)
                has_run = self._turn()
                if self._is_well and self.counters.errors.retried.passed(_TURN):
                    self._report(RunState.RUNNING)
                if not has_run:
                    self._rest()
            except Exception as error:
                self._turn_failed(error)

    def _turn_failed(self, error: Exception) -> None:
        """Back off before the next turn; passing errors are retried without a limit. Raises all others."""
        if self.control.is_stopping:
            return
        if not self._runtime.is_alive:
            self.control.wait_for_stop(BACK_OFF_S)  # the host sees it, too, and abandons this start
            return
        is_final = isinstance(error, ConfigError | FatalError) and not isinstance(error, KafkaRequestError)
        if is_final or isinstance(error, NotAdmittedError):  # Kafka's refusals may pass once a cluster has started
            raise error
        if not isinstance(error, PASSING):
            self._back_off.failed()
            if self._back_off.failures >= _MOST_FAILURES:
                raise error
        if self.counters.errors.retried.met(_TURN, error):
            log.warning("task %s will retry: %s", self.spec.id, text_of(error))
            self._report(self.counters.state)
        self._back_off.wait()

    def _take_core(self) -> bool:
        """Take a core for a Spark job, so that slots and DataFrames never deadlock.

        Returns False if the task is asked to stop or pause instead.
        """
        logged = ""
        while not self.control.should_yield:
            try:
                self._host.ledger.take(1, CoreUse.SPLIT)
                self._jobs.cores.append(CoreUse.SPLIT)
                return True
            except NoCoreError as error:
                if logged != str(error):
                    logged = str(error)
                    log.info("task %s waits: %s", self.spec.id, logged)
                self.control.wait(0.5)
        return False

    def _release_core(self) -> None:
        """Release the core if one is held. Any thread."""
        with suppress(IndexError):  # to take it out of the list is atomic
            self._host.ledger.release(1, self._jobs.cores.pop())

    def _report_end(self, state: RunState, trace: str | None) -> None:
        self._report(state, trace)

    def _report(self, state: RunState, trace: str | None = None) -> None:
        self.control.move()
        self._status.report(state, trace)

    def _send_report(self, trace: str | None, more: Mapping[str, float]) -> None:
        counters = {**self.counters.to_json(), **more, **spans_dropped(self.spec)}
        report = report_of(self.spec, self.counters.state, trace, counters, self._topics_used())
        self._host.events.reported([replace(report, figures=self._figures())])

    def look(self) -> None:
        """Report it if the task stands still, waits for executors or Spark's driver, or moves again. Any thread."""
        self._status.look(self.work.text)
