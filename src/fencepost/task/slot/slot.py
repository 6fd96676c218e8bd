"""A slot: one process on an executor that runs its worker's tasks, each in a thread.

The slot registers with its worker, polls it for directives (which is also its heartbeat), and reports what its tasks
do. A slot that cannot reach its worker for the length of its lease stops its tasks and leaves: a process that was
paused, or that outlives its worker, is the common zombie. It is fenced in any case; leaving early only frees resources.
"""

import contextlib
import logging
import resource
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

import orjson

from fencepost.task.channel.client import ChannelClient
from fencepost.task.channel.message import (
    Directive,
    LostTask,
    TaskReport,
    Verb,
)
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.delivery.copies import Copy
from fencepost.task.sink.runner import SinkRunner
from fencepost.task.slot import stack_reader
from fencepost.task.slot.watchdog import Watchdog
from fencepost.task.slot.worker_line import SlotSpec, WorkerLine
from fencepost.task.source.runner import SourceRunner
from fencepost.task.start.producing import Admit
from fencepost.task.start.progress import stack_of
from fencepost.task.start.runner import Report, TaskRunner
from fencepost.task.stream.runner import StreamRunner
from fencepost.task.tracing.exports import close_tracing
from fencepost.telemetry.loggers import about, loggers, quiet_libraries
from fencepost.telemetry.measure import Garbage, rare_collections
from fencepost.telemetry.slot_log import write_slot_log
from fencepost.telemetry.traces import log_what_nobody_catches


class ReportFilter:
    """Leaves out unchanged reports of tasks: hundreds of idle tasks would keep slot and worker busy."""

    def __init__(self) -> None:
        self._sent: dict[str, TaskReport] = {}
        self._settled: set[str] = set()

    def changed(self, reports: Sequence[TaskReport]) -> list[TaskReport]:
        """Return the reports that changed since the last call, and those unchanged for the first time (a rate of zero).

        A task that is over is left out: it reports its own end, with the reason.
        """
        reports = [r for r in reports if not r.state.is_over]
        same = {r.incarnation for r in reports if self._sent.get(r.incarnation) == r}
        changed = [r for r in reports if r.incarnation not in same or r.incarnation not in self._settled]
        self._sent = {r.incarnation: r for r in reports}
        self._settled = same
        return changed


class StartQueue:
    """Lets a few tasks start at a time.

    A thousand producers that connect at the same moment overflow the broker's backlog, and TCP lets the dropped ones
    wait for seconds. A task's place is free again once it has reported anything, or after `reserved_s`.
    """

    def __init__(self, most: int = 24, reserved_s: float = 5.0) -> None:
        self._most = most
        self._reserved_s = reserved_s
        self._waiting: deque[str] = deque()
        self._starting: dict[str, float] = {}

    def put(self, incarnation: str) -> None:
        self._waiting.append(incarnation)

    def done(self, incarnation: str) -> None:
        self._starting.pop(incarnation, None)

    def take(self, now: float) -> list[str]:
        """Return the tasks that may start now."""
        self._starting = {i: t for i, t in self._starting.items() if now - t < self._reserved_s}
        count = min(self._most - len(self._starting), len(self._waiting))
        taken = [self._waiting.popleft() for _ in range(count)]
        self._starting.update(dict.fromkeys(taken, now))
        return taken


log = logging.getLogger(__name__)

_STOP_S = 5.0
"""How long the tasks of a slot that leaves may take to stop."""
_MOST_CALLS = 4_000
"""How deep calls may be: JSON has up to 1,024 levels, for each of which a transform or a sink may need three."""


class Slot:
    """The tasks of one slot process."""

    def __init__(self, spec: SlotSpec, channel: ChannelClient, attempt: str, watchdog: Watchdog | None = None) -> None:
        """`watchdog` belongs to the slot, which closes it."""
        self._worker = WorkerLine(spec, channel, attempt)
        self._watchdog = watchdog
        self._runners: dict[str, TaskRunner] = {}
        self._reports: list[TaskReport | LostTask] = []
        self._report_filter = ReportFilter()
        self._starts = StartQueue()
        self._lock = threading.Lock()
        self._has_report = threading.Event()

    def run(self) -> None:
        """Serve the worker until it asks the slot to leave, or the lease is over."""
        sys.setrecursionlimit(max(sys.getrecursionlimit(), _MOST_CALLS))
        try:
            if self._worker.register():
                self._serve()
        finally:
            if self._watchdog is not None:
                self._watchdog.close()

    def _serve(self) -> None:
        if self._watchdog is not None:
            self._watchdog.start()
        reporter = threading.Thread(target=self._report_all, name="slot-reporter", daemon=True)
        reporter.start()
        self._obey()
        self._leave()
        self._worker.has_left = True
        self._has_report.set()
        reporter.join(2.0)

    def _obey(self) -> None:
        done = 0
        while not self._worker.is_leaving:
            answer = self._worker.directives(done)
            if answer is None:
                return
            for directive in answer.directives:
                if directive.seq > done:
                    self._carry_out(directive)
                    done = directive.seq

    def _carry_out(self, directive: Directive) -> None:
        if directive.spec is not None:
            self._start(directive.spec)
        elif directive.verb is Verb.LEAVE:
            self._worker.is_leaving = True
        elif directive.verb is Verb.LEVELS:
            loggers.adopt(directive.levels, int(time.time() * 1000))
        else:
            runner = self._runners.get(directive.incarnation)
            if runner is not None:
                acts: dict[Verb, Callable[[], None]] = {
                    Verb.STOP: runner.control.stop,
                    Verb.PAUSE: runner.control.pause,
                    Verb.RESUME: runner.control.resume,
                    Verb.ABANDON: partial(_abandon, runner),
                }
                acts[directive.verb]()

    def _start(self, spec: TaskSpec) -> None:
        if spec.incarnation in self._runners:
            return
        runner = runner_of(spec, self._worker.admit, self._report, partial(self._worker.copy, spec))
        with self._lock:
            self._runners[spec.incarnation] = runner
            self._starts.put(spec.incarnation)
        self._begin_due()

    def _begin_due(self) -> None:
        if self._worker.is_leaving:
            return
        with self._lock:
            due = [self._runners[i] for i in self._starts.take(time.monotonic()) if i in self._runners]
        for runner in due:
            runner.thread.start()
            if self._watchdog is not None:
                self._watchdog.names(runner.thread, runner.spec.incarnation)

    def _report(self, last: TaskReport | LostTask) -> None:
        report = last if isinstance(last, TaskReport) else last.report
        with self._lock:
            self._reports.append(last)
            if report.state.is_over:
                self._runners.pop(report.incarnation, None)
            self._starts.done(report.incarnation)
        self._begin_due()
        self._has_report.set()

    def _report_all(self) -> None:
        """Send changes of state at once and changed counters every second; also collect garbage."""
        last_counters, garbage = 0.0, Garbage()
        while True:
            garbage.collect_if_due()
            self._has_report.wait(self._worker.spec.report_every_s)
            self._has_report.clear()
            self._begin_due()
            is_last = self._worker.has_left
            with self._lock:
                changes, self._reports = self._reports, []
                is_due = time.monotonic() - last_counters >= self._worker.spec.report_every_s
                running = self._report_filter.changed([r.snapshot() for r in self._runners.values()]) if is_due else []
            last_counters = time.monotonic() if is_due else last_counters
            if not self._worker.send([*changes, *running]):
                self._report_filter = ReportFilter()
                with self._lock:
                    self._reports = changes + self._reports
                self._has_report.set()
                threading.Event().wait(self._worker.spec.retry_s)
                if self._worker.is_lease_over():
                    return
            if is_last and not self._reports:
                return

    def _leave(self) -> None:
        self._worker.is_leaving = True
        with self._lock:
            runners = list(self._runners.values())
        for runner in runners:
            runner.control.stop()
        deadline = time.monotonic() + _STOP_S
        for runner in [r for r in runners if r.thread.ident is not None]:
            runner.thread.join(max(0.0, deadline - time.monotonic()))
            if runner.thread.is_alive():
                _abandon(runner)


def _abandon(runner: TaskRunner) -> None:
    """Say where a task is that does not stop in time, and abandon it."""
    stack = stack_of(runner.thread)
    if stack:
        with about(runner.spec.connector, runner.spec.task):
            log.warning("task %s is abandoned inside this call:\n%s", runner.spec.id, stack)
    runner.abandon()


def runner_of(spec: TaskSpec, admit: Admit, report: Report, copy: Copy | None = None) -> TaskRunner:
    """Return a task's runner, for a thread of its own; `copy` lets the worker write copies of a source's offsets."""
    if spec.is_stream:
        return StreamRunner(spec, admit, report)
    if spec.is_sink:
        return SinkRunner(spec, admit, report)
    return SourceRunner(spec, admit, report, copy)


def run_slot(spec_text: str, attempt: int) -> None:
    """Run a slot until it is asked to leave: the body of a slot's Spark job."""
    spec = SlotSpec(**orjson.loads(spec_text))
    attempt_id = f"{attempt}-{uuid.uuid4().hex}"
    after_s = spec.lease_s / 2
    watchdog = Watchdog(after_s, stack_reader.command(after_s, spec.channel_url, spec.slot, attempt_id))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # a task's producer needs ten descriptors, and shells allow 1,000
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    write_slot_log(spec.log_level)
    quiet_libraries()
    log_what_nobody_catches()
    try:
        with rare_collections():
            Slot(spec, ChannelClient(spec.channel_url), attempt_id, watchdog).run()
    finally:
        close_tracing()
