"""Runs one start of a task, whatever its kind: a thread, a state, an admission, and one last report."""

import itertools
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

from fencepost.api import FatalError, RetriableError
from fencepost.hook.hosted_task import HostLostError, InOtherProcess
from fencepost.plugin.secret_keys import hold_given_secrets
from fencepost.reference import providers_of
from fencepost.secret.known import hold
from fencepost.storage.change import TargetState
from fencepost.task.channel.message import Admission, LostTask, RunState, TaskReport
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control
from fencepost.task.conversion.plugins import use_plugins
from fencepost.task.failure.tolerance import BackOff, pause_after
from fencepost.task.start.progress import ProgressWatch
from fencepost.task.start.run import Counters
from fencepost.task.tracing.exports import spans_dropped
from fencepost.telemetry.loggers import about
from fencepost.telemetry.traces import trace_of


class NotAdmittedError(Exception):
    """The worker says that this start of the task is not, or is no longer, the one to run."""


def admitted(admission: Admission) -> Admission:
    """Return `admission` if it admits the start. Raises NotAdmittedError; FatalError if no start would be admitted."""
    if admission.failure:
        raise FatalError(admission.failure)
    if not admission.is_admitted:
        raise NotAdmittedError(admission.reason)
    return admission


def report_of(
    spec: TaskSpec, state: RunState, trace: str | None, counters: Mapping[str, float], topics: Iterable[str]
) -> TaskReport:
    """Return the report of a start: its state, `trace` if it has failed, counters and the topics it wrote to."""
    return TaskReport(spec.connector, spec.task, spec.incarnation, state, trace, counters, tuple(sorted(topics)))


_SAME_START_S = 10.0


def resolved(spec: TaskSpec) -> TaskSpec:
    """Return the spec with values in place of references.

    Raises ConfigError if one cannot be looked up here, RetriableError if a store is away.
    """
    references = spec.look_up.references
    if references is None:
        return spec
    use_plugins(spec)
    providers = providers_of(references.providers)
    connector = providers.look_up(references.connector_config)
    task = providers.look_up(references.task_config, _SAME_START_S)
    connector_config, task_config = connector.require(), task.require()
    values = tuple({**connector.found, **task.found}.values())  # clients refer to nothing else
    parts: dict[str, dict[str, Any]] = {"output": {}, "input": {}}
    for recipe in references.clients:
        part, _, name = recipe.place.partition(".")
        made = recipe.translated(lambda own: providers.look_up(own, _SAME_START_S).require())
        parts[part][name] = made.conf
    return replace(
        spec,
        connector_config={**spec.connector_config, **connector_config},
        task_config={**spec.task_config, **task_config},
        look_up=replace(spec.look_up, references=replace(references, values=values)),
        output=replace(spec.output, **parts["output"]),
        input=replace(spec.input, **parts["input"]),
    )


def client_settings(spec: TaskSpec) -> dict[str, str]:
    """Return the settings of all Kafka clients in a spec that are text; each name comes with the client's."""
    confs = {
        "producer": spec.output.producer_conf,
        "admin": spec.output.admin_conf,
        "consumer": spec.input.consumer_conf,
        "reader": spec.input.reader_conf,
    }
    return {
        f"{client}.{key}": value
        for client, conf in confs.items()
        for key, value in conf.items()
        if isinstance(value, str)
    }


log = logging.getLogger(__name__)

_PAUSES_S = (0.0, 0.2, 0.5, 1.0, 2.0, 5.0)
_WELL_AFTER_S = 15.0  # three times the longest pause
_INSTANCE, _LOOK_UP = "instance", "look up"
_MOST_FIGURES_FAILED = 5  # in a row, a second apart: a single failure may be a race with the task's own thread


Report = Callable[[TaskReport | LostTask], None]


class _Failed(NamedTuple):
    """The last failed instance: the commits until then, and when that was, on the monotonic clock."""

    commits: int
    at_s: float


class TaskRunner(ABC):
    """Runs one start of a task in its own thread, and reports its states."""

    counters: Counters
    starts_over: ClassVar[tuple[type[Exception], ...]]
    """The errors after which another instance is tried."""
    _has_run = False  # whether it has ever been RUNNING

    def __init__(self, spec: TaskSpec, report: Report) -> None:
        self.spec = spec
        self.control = Control(is_paused=spec.target_state == TargetState.PAUSED.value)
        self._report = report
        self._is_abandoned = False
        self._back_off = BackOff(self.control, _PAUSES_S)
        self._failed = _Failed(0, 0.0)
        self._figures_failed = 0
        self._failure: BaseException | None = None  # raised outside the task's thread, and ends the task
        self.thread = threading.Thread(target=self.run, name=f"task-{spec.id}", daemon=True)
        self._progress = ProgressWatch(spec, self.control, lambda: self.thread, self._elsewhere)

    @abstractmethod
    def abandon(self) -> None:
        """Abandon a task that does not stop in time: its client is closed while the task uses it. Any thread."""

    @abstractmethod
    def _run_instance(self) -> None:
        """Run a new instance of the task until asked to stop.

        Raises NotAdmittedError, or an error for `_start_over`.
        """

    @abstractmethod
    def _start_over(self, error: Exception) -> None:
        """Prepare for another instance after this error. Raises the error if another instance would fail alike."""

    @abstractmethod
    def _close(self) -> None:
        """Release the task's resources. Idempotent; also called after the last report."""

    def _elsewhere(self) -> InOtherProcess | None:
        """Return where the task's code runs if that is another process."""
        return None

    def _before_the_last_report(self) -> None:
        """Do the last work of a start that still counts as running."""

    def run(self) -> None:
        """Run until stopped, not admitted, or failed; report every change of state.

        Authors' code may raise more than Exception: sys.exit(), CancelledError, the panic of a Rust extension.
        """
        self.control.move()
        hidden = ExitStack()
        hidden.enter_context(about(self.spec.connector, self.spec.task))
        try:
            use_plugins(self.spec)  # they say which of their settings are secrets
            hidden.callback(hold_given_secrets({**self.spec.task_config, **self.spec.connector_config}))
            self._look_up(hidden)
            self._run_to_the_end()
            if self._failure is not None:
                raise self._failure
            self._end(RunState.STOPPED)
        except NotAdmittedError as error:
            log.info("task %s: %s", self.spec.id, error)
            self._end(RunState.ABANDONED, str(error))
        except HostLostError as error:
            log.warning("task %s is lost: %s", self.spec.id, error)
            self._end_lost(error)
        except BaseException as error:
            if self._is_abandoned:
                log.info("abandoned task %s ended: %r", self.spec.id, error)
                return
            self._end(RunState.FAILED, trace_of(error))
        finally:
            self._close()
            hidden.close()

    def _look_up(self, hidden: ExitStack) -> None:
        """Replace the references of the configs, and hide their values until `hidden` is closed.

        It tries again as long as a store is away, unless asked to stop.
        """
        for attempt in itertools.count():
            try:
                self.spec = resolved(self.spec)
                hidden.callback(hold_given_secrets(client_settings(self.spec)))
                if self.spec.look_up.references is not None:
                    hidden.callback(hold(self.spec.look_up.references.values))
                self.counters.errors.retried.passed(_LOOK_UP)
                return
            except RetriableError as error:
                if self.counters.errors.retried.met(_LOOK_UP, error):
                    log.warning("task %s cannot start yet: %s", self.spec.id, error)
                if self.control.wait_for_stop(pause_after(attempt, _PAUSES_S)):
                    return

    def _run_to_the_end(self) -> None:
        while not self.control.is_stopping:
            if self.control.is_paused:
                self.report(RunState.PAUSED)
                self.control.wait_while_paused()
                continue
            try:
                self._run_instance()
            except self.starts_over as error:
                self._start_over(error)

    def _will_start_again(self, error: Exception) -> bool:
        """Count, and log at growing intervals, a failure in a row after which another instance is tried.

        If something was committed since the last one, it is the first; returns whether it was.
        """
        has_committed = self.counters.commits != self._failed.commits
        if has_committed:
            self.counters.errors.retried.passed(_INSTANCE)
        self._failed = _Failed(self.counters.commits, time.monotonic())
        if has_committed:
            self._back_off.passed()
        else:
            self._back_off.failed()
        if self.counters.errors.retried.met(_INSTANCE, error):
            log.warning("task %s starts again: %s", self.spec.id, error)
        return has_committed

    def _goes_well(self) -> bool:
        """Say whether the newest instance has committed something, or has run for a while."""
        is_older = time.monotonic() - self._failed.at_s > _WELL_AFTER_S
        return self.counters.commits != self._failed.commits or (is_older and self.counters.state is RunState.RUNNING)

    def _start(self, task: Any) -> None:
        """Call the `start` of the author's task. Raises FatalError instead of RetriableError if no instance has run.

        An error fails the task then, as in Kafka Connect, also one after which other calls are repeated. Kafka Connect
        would not start a task again that has run. So a passing error does not fail it then: `start` is repeated.
        """
        try:
            task.start()
        except RetriableError as error:
            if self._has_run:
                error.add_note("start() has raised it")
                raise
            raise FatalError(
                f"start() raised {type(error).__name__}, and only poll, put and process are repeated "
                f"after that: try again within start(), or connect in one of those: {error}"
            ) from error

    def _stop(self, task: Any) -> None:
        try:
            task.stop()
        except BaseException:
            log.exception("task %s: an error in stop() is ignored", self.spec.id)

    def _end(self, state: RunState, trace: str | None = None) -> None:
        """Make the last report. Raises an error of the steps before it if the task was to stop well."""
        try:
            self._before_the_last_report()
        except BaseException:
            if state is RunState.STOPPED:
                raise
            log.exception("task %s: an error after its end is ignored", self.spec.id)
        self.report(state, trace)

    def _end_lost(self, error: HostLostError) -> None:
        """Make the last report of a start whose code ran in a process that is gone."""
        self.counters.state, self._progress.trace = RunState.LOST, str(error)
        if not self._is_abandoned:
            companions = tuple(sorted({*error.companions, self.spec.incarnation}))
            self._report(LostTask(self.snapshot(), companions if error.is_crash else ()))

    def report(self, state: RunState, trace: str | None = None) -> None:
        """Report a change of state, or of `trace`, which holds until the next report."""
        self.control.move()
        self.counters.state, self._progress.trace = state, trace
        self._has_run = self._has_run or state is RunState.RUNNING
        if not self._is_abandoned:
            self._report(self.snapshot())

    def snapshot(self) -> TaskReport:
        """Return state and counters as they are."""
        state = self.counters.state
        if self._goes_well():
            self.counters.errors.retried.passed(_INSTANCE)
        trace, progress = self._progress.of(state, self.counters.errors.retried.text)
        counters = {**self.counters.to_json(), **progress, **spans_dropped(self.spec)}
        report = report_of(self.spec, state, trace, counters, self.counters.topics)
        return replace(report, figures=self._measured())

    def figures(self) -> str:
        """Return the task's own measurements as JSON. Raises the errors of the author's code. Any thread."""
        return ""

    def _measured(self) -> str:
        """Return `figures`, or nothing if they fail: the slot reports its other tasks in the same request.

        After several failures in a row the task fails with that error.
        """
        try:
            found = self.figures()
        except BaseException as error:
            self._figures_failed += 1
            if self._figures_failed == 1:
                log.exception("task %s: figures() failed", self.spec.id)
            if self._failure is None and self._figures_failed >= _MOST_FIGURES_FAILED:
                self._failure = error
                self.control.stop()
            return ""
        self._figures_failed = 0
        return found
