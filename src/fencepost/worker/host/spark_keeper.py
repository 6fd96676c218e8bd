"""Keeps Spark running for a worker: starts it, tells the doors that it is there, and starts it again when it goes."""

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from fencepost.spark.session.error import SparkError
from fencepost.spark.slot.cores import CoreLedger
from fencepost.worker.host.slot_pool import Jobs

log = logging.getLogger(__name__)

_RESTART_S = 2.0
_SLOTS_S = 60.0
_SESSION_AFTER_S = 5.0
_SESSION_BY_S = 60.0
_TICK_S = 1.0

OnSlotEnd = Callable[[str, Exception | None], None]


class Runtime(Protocol):
    """What is needed of `SparkRuntime`."""

    @property
    def context(self) -> Any: ...

    @property
    def session(self) -> Any: ...

    @property
    def cores(self) -> int: ...

    @property
    def is_alive(self) -> bool: ...

    @property
    def jvm_pid(self) -> int | None: ...

    def on_exit(self, listener: Callable[[str], None]) -> None: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...


class Sparks(Protocol):
    """Makes a Spark after each other, and the jobs of its slots."""

    def runtime(self) -> Runtime: ...

    def slot_jobs(self, runtime: Any, on_end: OnSlotEnd) -> Jobs: ...


class Slots(Protocol):
    """What is needed of `SlotPool`."""

    def attach(self, jobs: Jobs | None) -> None: ...

    def prepare(self, *, is_full: bool) -> None: ...

    def wait_until_there(self, timeout_s: float) -> bool: ...

    def job_ended(self, slot_id: str, error: Exception | None) -> None: ...


class Frames(Protocol):
    """What is needed of `DataFrameHost`."""

    def attach(self, runtime: Any) -> None: ...


class Outlook(Protocol):
    """What the keeper needs to know of the worker's tasks."""

    @property
    def takes_over(self) -> bool:
        """Say whether tasks may come that run elsewhere now; such a task pauses while it waits for a slot here."""

    @property
    def awaits_frames(self) -> bool:
        """Say whether there is a connector of DataFrames, whose session had better be there already."""

    @property
    def began_last_s(self) -> float:
        """Return when a task began last, by the monotonic clock."""

    def wait_for_offsets(self, timeout_s: float) -> bool:
        """Wait until offsets were read ahead. Returns whether they were."""

    def be_ready(self) -> None:
        """Say, soon, that there is somewhere to run tasks."""


class SparkKeeper:
    """Runs in a thread of its own, from `start` until the worker stops."""

    def __init__(
        self,
        sparks: Sparks,
        ledger: CoreLedger,
        slots: Slots,
        frames: Frames,
        outlook: Outlook,
        stopping: threading.Event,
        restart_s: float = _RESTART_S,
    ) -> None:
        self._sparks = sparks
        self._ledger = ledger
        self._slots = slots
        self._frames = frames
        self._outlook = outlook
        self._stopping = stopping
        self._restart_s = restart_s
        self._runtime: Runtime | None = None

    def start(self) -> None:
        """Begin to start Spark."""
        threading.Thread(target=self.run, name="spark", daemon=True).start()

    def stop(self) -> None:
        """Stop the Spark that runs."""
        if self._runtime is not None:
            self._runtime.stop()

    def jvm_pid(self) -> int | None:
        """Return the process id of Spark's JVM, where there is one."""
        return self._runtime.jvm_pid if self._runtime is not None else None

    def count_cores(self) -> None:
        """See how many cores there are now: executors come and go. Never waits for Spark."""
        if self._runtime is not None:
            self._ledger.set_total(self._runtime.cores)

    def run(self) -> None:
        """Start Spark, and again whenever it goes; returns when the worker stops."""
        while not self._stopping.is_set():
            gone = threading.Event()
            runtime = self._sparks.runtime()
            runtime.on_exit(partial(_gone, gone))
            try:
                runtime.start()
            except SparkError as error:
                log.error("%s", error)
                self._stopping.wait(self._restart_s)
                continue
            self._use(runtime)
            self._stay(runtime, gone)
            self._slots.attach(None)
            if not self._stopping.is_set():
                self._frames.attach(None)
                runtime.stop()
                self._stopping.wait(self._restart_s)

    def _use(self, runtime: Runtime) -> None:
        """Slots first: they need no session, and making one would take the cores from them."""
        self._runtime = runtime
        self._ledger.set_total(runtime.cores)
        self._slots.attach(self._sparks.slot_jobs(runtime, self._slots.job_ended))
        self._slots.prepare(is_full=self._outlook.takes_over)
        self._frames.attach(runtime)

    def _stay(self, runtime: Runtime, gone: threading.Event) -> None:
        """Return when Spark has gone, or the worker goes. In between, say that there is room, and make a session.

        Tasks that move here wait for nothing more than their own start: slots are there before they are asked for,
        and the session, seconds of processor time, is made when no more of them start (a DataFrame does not wait for
        that). A session takes two hundred megabytes, too: where no connector needs it, nobody makes it.
        """
        began_s, ready_s = time.monotonic(), None
        has_session = False
        while not gone.is_set() and not self._stopping.is_set():
            now_s = time.monotonic()
            if ready_s is None:
                is_there = self._slots.wait_until_there(_TICK_S) and self._outlook.wait_for_offsets(_TICK_S)
                if is_there or now_s > began_s + _SLOTS_S:
                    ready_s = now_s
                    self._outlook.be_ready()
            elif not has_session and self._is_session_due(ready_s, now_s):
                has_session = True
                self._make_session(runtime)
            else:
                gone.wait(_TICK_S)

    def _is_session_due(self, ready_s: float, now_s: float) -> bool:
        is_quiet = now_s > max(ready_s, self._outlook.began_last_s) + _SESSION_AFTER_S
        return (is_quiet or now_s > ready_s + _SESSION_BY_S) and self._awaits_frames()

    def _awaits_frames(self) -> bool:
        """Ask for it; a plug-in that cannot be looked at must not end the thread that keeps Spark."""
        try:
            return self._outlook.awaits_frames
        except BaseException as error:
            log.debug("whether there are DataFrames cannot be told: %s", error)
            return False

    def _make_session(self, runtime: Runtime) -> None:
        """Make the session for the first DataFrame; where one runs already, that one has made it."""
        try:
            _ = runtime.session
        except Exception as error:  # Spark has gone, or goes: the caller sees to that
            log.log(
                logging.DEBUG if self._stopping.is_set() else logging.WARNING,
                "Spark's session: %s",
                str(error).partition("\n")[0],
            )


def _gone(gone: threading.Event, reason: str) -> None:
    log.error("%s", reason)
    gone.set()
