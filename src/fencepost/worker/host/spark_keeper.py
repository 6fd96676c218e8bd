"""Keeps Spark running for a worker: starts it, attaches the task hosts to it, and restarts it when it dies."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from fencepost.spark.session import SparkError
from fencepost.spark.session.jvm import JvmFigures
from fencepost.spark.slot.cores import CoreLedger
from fencepost.worker.host.dataframe_host import DataFrameHost
from fencepost.worker.host.driver import Driver
from fencepost.worker.host.slot import SlotPool
from fencepost.worker.plan import has_dataframes
from fencepost.worker.supervision.supervision import Supervision
from fencepost.worker.topics import WorkerTopics

if TYPE_CHECKING:
    from fencepost.spark.session.session import SparkRuntime

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Times:
    """How long the keeper waits, in seconds."""

    restart: float = 2.0
    slots: float = 60.0
    session_after: float = 5.0
    session_by: float = 60.0
    tick: float = 1.0


@dataclass(frozen=True)
class TaskForecast:
    """What the keeper needs to know about the worker's tasks. `be_ready` announces soon that it can run tasks."""

    url: str
    topics: WorkerTopics
    supervision: Supervision
    be_ready: Callable[[], None]

    @property
    def takes_over(self) -> bool:
        """Say whether tasks may come that run elsewhere now; such a task pauses while it waits for a slot here."""
        assignment = self.topics.snapshot.assignment
        return any(w.tasks and w.url != self.url for w in (assignment.workers if assignment else ()))

    @property
    def awaits_frames(self) -> bool:
        """Say whether there is a DataFrame connector, for which a session should be ready."""
        return has_dataframes(self.topics.snapshot)

    @property
    def began_last_s(self) -> float:
        """Return the monotonic time of the newest start of a task."""
        return self.supervision.totals.began_last_s

    def wait_for_offsets(self, timeout_s: float) -> bool:
        """Wait until offsets were read ahead. Returns whether they were."""
        return self.supervision.offsets.wait_until_read(timeout_s)


class _Kept:
    """The Spark that is in use, or was last; why there is none; and whether its slots have been there."""

    def __init__(self) -> None:
        self.runtime: SparkRuntime | None = None
        self.absence: str | None = None
        self.is_ready = False
        self._lock = threading.Lock()

    def began(self, gone: threading.Event) -> None:
        """Note that a Spark runs, unless it has ended already."""
        with self._lock:
            if not gone.is_set():
                self.absence = None

    def ready(self, gone: threading.Event) -> None:
        """Note that its slots are there, unless it has ended."""
        with self._lock:
            self.is_ready = not gone.is_set()

    def ended(self, gone: threading.Event, reason: str) -> None:
        log.error("%s", reason)
        with self._lock:
            self.absence, self.is_ready = reason, False
            gone.set()


class SparkKeeper:
    """Runs in a thread of its own, from `start` until the worker stops."""

    def __init__(
        self,
        sparks: Driver,
        ledger: CoreLedger,
        slots: SlotPool,
        frames: DataFrameHost,
        forecast: TaskForecast,
        stopping: threading.Event,
        times: Times = Times(),
    ) -> None:
        self._sparks = sparks
        self._ledger = ledger
        self._slots = slots
        self._frames = frames
        self._forecast = forecast
        self._stopping = stopping
        self._times = times
        self._kept = _Kept()

    def start(self) -> None:
        """Start the thread that starts Spark."""
        threading.Thread(target=self.run, name="spark", daemon=True).start()

    def stop(self) -> None:
        """Stop the running Spark."""
        if self._kept.runtime is not None:
            self._kept.runtime.stop()

    @property
    def absence(self) -> str | None:
        """Return why Spark is gone or could not be started; None while it runs, or starts for the first time."""
        return self._kept.absence

    @property
    def is_ready(self) -> bool:
        """Say whether tasks can run: Spark runs, and a slot has been there, or none came in a minute."""
        return self._kept.is_ready

    def jvm_pid(self) -> int | None:
        """Return the process id of Spark's JVM; None if there is no JVM."""
        return self._kept.runtime.jvm_pid if self._kept.runtime is not None else None

    def jvm_figures(self) -> JvmFigures | None:
        """Return the figures of Spark's JVM while it runs; None if they are not known yet."""
        runtime = self._kept.runtime
        return runtime.jvm_figures if runtime is not None and self._kept.absence is None else None

    def count_cores(self) -> None:
        """Update the number of cores: executors come and go. Never waits for Spark."""
        if self._kept.runtime is not None:
            self._ledger.set_total(self._kept.runtime.cores)

    def run(self) -> None:
        """Start Spark, and restart it whenever it dies; returns when the worker stops."""
        while not self._stopping.is_set():
            gone = threading.Event()
            runtime = self._sparks.runtime()
            runtime.on_exit(partial(self._kept.ended, gone))
            try:
                runtime.start()
            except SparkError as error:
                self._kept.ended(gone, str(error))
                self._detach()
                self._stopping.wait(self._times.restart)
                continue
            self._kept.began(gone)
            self._use(runtime)
            self._stay(runtime, gone)
            if self._stopping.is_set():
                self._slots.attach("the worker stops")  # DataFrame tasks end by themselves
            else:
                self._detach()
                runtime.stop()
                self._stopping.wait(self._times.restart)

    def _use(self, runtime: "SparkRuntime") -> None:
        """Attach the hosts, slots first: they need no session, and creating one would take processor time from them."""
        self._kept.runtime = runtime
        self._ledger.set_total(runtime.cores)
        self._slots.attach(self._sparks.slot_jobs(runtime, self._slots.job_ended, self._slots.executor_leaves))
        self._slots.prepare(is_full=self._forecast.takes_over)
        self._frames.attach(runtime)

    def _detach(self) -> None:
        """Tell the hosts why there is no Spark; the statuses of tasks that wait for one have that text."""
        why = f"Spark is not running, and is started again: {self._kept.absence}"
        self._slots.attach(why)
        self._frames.attach(why)

    def _stay(self, runtime: "SparkRuntime", gone: threading.Event) -> None:
        """Return when Spark dies, or the worker stops. In between, announce readiness, and create a session.

        Tasks that move here wait only for their own start: slots are ready before they are needed. The session takes
        seconds of processor time, and is created when no more tasks start (a DataFrame does not wait for that). It also
        takes two hundred megabytes, so it is not created unless a connector needs it.
        """
        began_s, ready_s = time.monotonic(), None
        has_session, tick_s = False, self._times.tick
        while not gone.is_set() and not self._stopping.is_set():
            now_s = time.monotonic()
            if ready_s is None:
                is_there = self._slots.wait_until_there(tick_s) and self._forecast.wait_for_offsets(tick_s)
                if is_there or now_s > began_s + self._times.slots:
                    ready_s = now_s
                    self._kept.ready(gone)
                    self._forecast.be_ready()
            elif not has_session and self._is_session_due(ready_s, now_s):
                has_session = True
                self._make_session(runtime)
            else:
                gone.wait(tick_s)

    def _is_session_due(self, ready_s: float, now_s: float) -> bool:
        is_quiet = now_s > max(ready_s, self._forecast.began_last_s) + self._times.session_after
        return (is_quiet or now_s > ready_s + self._times.session_by) and self._awaits_frames()

    def _awaits_frames(self) -> bool:
        """Ask whether a session is needed; an error of a plug-in must not end the thread that keeps Spark running."""
        try:
            return self._forecast.awaits_frames
        except BaseException as error:
            log.debug("cannot determine whether there are DataFrame connectors: %s", error)
            return False

    def _make_session(self, runtime: "SparkRuntime") -> None:
        """Create the session for the first DataFrame, unless a running one has created it already."""
        try:
            _ = runtime.session
        except Exception as error:  # Spark has died or is stopping, which the caller handles
            log.log(
                logging.DEBUG if self._stopping.is_set() else logging.WARNING,
                "Spark's session could not be created: %s",
                str(error).partition("\n")[0],
            )
