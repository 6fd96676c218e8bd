"""Slots as Spark jobs: each slot is a job of its own with one long-running task, so no slot's death affects another.

A Python process that ended by a signal could not report it. Spark reports an unexpected exit and, with
`spark.python.worker.faulthandler.enabled`, appends the last output of Python's fault handler. After SIGKILL there is
none.
"""

import contextlib
import logging
import re
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from fencepost.spark.slot.running_jobs import LeavingExecutors

log = logging.getLogger(__name__)

SlotEntry = Callable[[str, int], None]
OnSlotEnd = Callable[[str, Exception | None], None]
OnSlotLeaving = Callable[[str, float], None]

_LOOK_EVERY_S = 0.2


class ContextOwner(Protocol):
    """The part of `SparkRuntime` that is needed here."""

    @property
    def context(self) -> Any:
        """Return the SparkContext. Raises RuntimeError once Spark has ended."""


class SlotEndedError(RuntimeError):
    """A slot's Spark job failed; the text is the reason that Spark gives, in one line."""


class SlotCrashedError(SlotEndedError):
    """The process of a slot, or its executor, died: nobody ended it, and it raised nothing."""


_CRASHES = ("Python worker exited unexpectedly", "ExecutorLostFailure")


@dataclass
class _Slot:
    group: str
    is_cancelled: threading.Event = field(default_factory=threading.Event)


class SlotJobs:
    """Launches slots and reports when they end.

    `entry` is a function that executors can import by name; it gets the slot's spec (JSON text without secrets) and the
    number of the attempt, which grows when Spark itself runs the slot again. `on_end(slot_id, error)` is called in the
    slot's driver thread: with None after `entry` returned or after `cancel`, else with the reason. Thread-safe.
    """

    def __init__(self, runtime: ContextOwner, entry: SlotEntry, on_end: OnSlotEnd) -> None:
        self._runtime = runtime
        self._entry = entry
        self._on_end = on_end
        self._slots: dict[str, _Slot] = {}
        self._lock = threading.Lock()

    def watch_executors(self, on_leaving: OnSlotLeaving) -> None:
        """Call `on_leaving(slot_id, for_s)` again and again while a slot's executor is leaving, as it has for `for_s`.

        The thread that calls it ends with the runtime.
        """
        threading.Thread(target=self._watch, args=(on_leaving,), name="slot-departures", daemon=True).start()

    def launch(self, slot_id: str, spec_json: str) -> None:
        """Submit the slot's job and return at once. Raises ValueError if the slot still runs."""
        with self._lock:
            if slot_id in self._slots:
                raise ValueError(f"slot {slot_id} is running")
            slot = self._slots[slot_id] = _Slot(group=f"slot-{slot_id}-{uuid.uuid4().hex}")
        threading.Thread(target=self._run, args=(slot_id, slot, spec_json), name=f"slot-{slot_id}", daemon=True).start()

    def cancel(self, slot_id: str) -> None:
        """End the slot's job; do nothing if no such slot runs.

        `on_end` follows at once. Spark kills the Python process up to three seconds later: until then it is a zombie,
        which is fenced like any other.
        """
        with self._lock:
            slot = self._slots.get(slot_id)
        if slot is not None:
            slot.is_cancelled.set()
            with contextlib.suppress(Exception):  # Spark itself may have ended, and the slot with it
                cancel_group(self._runtime.context, slot.group)

    @property
    def running(self) -> frozenset[str]:
        with self._lock:
            return frozenset(self._slots)

    def _watch(self, on_leaving: OnSlotLeaving) -> None:
        executors: LeavingExecutors | None = None
        since: dict[str, float] = {}
        while True:
            threading.Event().wait(_LOOK_EVERY_S)
            with self._lock:
                groups = {slot_id: slot.group for slot_id, slot in self._slots.items()}
            try:
                context = self._runtime.context
            except RuntimeError:
                return
            try:
                executors = executors or LeavingExecutors(context)
                leaving = executors.slots(groups)
            except Exception as error:  # the JVM has ended, which the runtime handles
                log.debug("Spark does not say which executors leave: %s", error)
                continue
            now = time.monotonic()
            since = {slot_id: since.get(slot_id, now) for slot_id in leaving}
            for slot_id, first in since.items():
                on_leaving(slot_id, now - first)

    def _run(self, slot_id: str, slot: _Slot, spec_json: str) -> None:
        error: Exception | None = None
        try:
            context = self._runtime.context
            with job_group(context, slot.group, f"slot {slot_id}", interrupts=False):
                context.parallelize([0], 1).foreachPartition(_SlotBody(self._entry, spec_json))
        except Exception as failure:
            if not slot.is_cancelled.is_set():
                kind = SlotCrashedError if any(words in str(failure) for words in _CRASHES) else SlotEndedError
                error = kind(reason_of(failure))
        finally:
            with self._lock:
                del self._slots[slot_id]
        self._on_end(slot_id, error)


class _SlotBody:
    """The code that runs on the executor: a class, so that it is pickled by name with its two values."""

    def __init__(self, entry: SlotEntry, spec_json: str) -> None:
        self.entry = entry
        self.spec_json = spec_json

    def __call__(self, rows: Iterable[int]) -> None:
        from pyspark import TaskContext

        _retire_process()
        self.entry(self.spec_json, TaskContext.get().attemptNumber())


def _retire_process() -> None:
    """Let this Python process end with its task instead of serving another: a slot may leave threads.

    PySpark ends a process if it does not understand the JVM's last word, and the JVM does not reuse it; the task's
    result is safe by then.
    """
    import pyspark.worker
    from pyspark.serializers import SpecialLengths

    try:
        from pyspark.messages.socket.spark_socket_message_receiver import SparkSocketMessageReceiver
    except (
        ImportError
    ):  # before Spark 4.3, where the worker itself reads that word, and nothing else once the task is run
        pyspark.worker.read_int = lambda stream: SpecialLengths.END_OF_DATA_SECTION
        return
    SparkSocketMessageReceiver.get_finish_signal_from_stream = _refuse


def _refuse(receiver: Any) -> None:
    raise RuntimeError("this process ends with its slot")


@contextlib.contextmanager
def job_group(context: Any, group: str, description: str, *, interrupts: bool = True) -> Iterator[None]:
    """Run this thread's Spark jobs in a group of their own, which `cancel_group` ends.

    A Spark thread that is interrupted while it waits for a Python process keeps asking until that process is killed. So
    do not set `interrupt` for jobs that only wait for one.
    """
    context.setJobGroup(group, description, interruptOnCancel=interrupts)
    context.addJobTag(group)
    try:
        yield
    finally:
        with contextlib.suppress(Exception):
            context.removeJobTag(group)
            context._jsc.sc().clearJobGroup()


def cancel_group(context: Any, group: str) -> None:
    """Cancel a group's jobs, including one that its thread is about to submit (group names are never reused)."""
    context._jsc.sc().cancelJobGroupAndFutureJobs(group)


_STAGE_FAILURE = re.compile(
    r"^Job aborted due to stage failure: .*?\(executor [^)]*\): (org\.apache\.spark\.SparkException: )?"
)
_NOT_A_REASON = ("at ", "File ", "^", "Traceback", "Driver stacktrace")
_PYTHON_ERROR = re.compile(r"^[A-Za-z_][\w.]*: ")


def reason_of(failure: BaseException) -> str:
    """Return the line of a Spark error that says what happened, without the stacks of JVM and Python."""
    java = getattr(failure, "java_exception", None)
    text = str(java.getMessage()) if java is not None else str(failure)
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith(_NOT_A_REASON)]
    if "Traceback (most recent call last):" in text:
        lines = [line for line in lines[1:] if _PYTHON_ERROR.match(line)] or lines
    first = lines[0] if lines else type(failure).__name__
    return _STAGE_FAILURE.sub("", first).partition(" Consider setting")[0]


_CRASHED = "Python worker exited unexpectedly (crashed)"
_FATAL = re.compile(r"Fatal Python error: ([A-Z][\w -]+)")
_SIGNALS = {
    "Segmentation fault": "SIGSEGV",
    "Aborted": "SIGABRT",
    "Bus error": "SIGBUS",
    "Illegal instruction": "SIGILL",
    "Floating point exception": "SIGFPE",
    "Floating-point exception": "SIGFPE",
}


def signal_of(error: BaseException | None) -> str | None:
    """Return the name of the signal that ended the process of a failed Spark job; None if no signal did.

    A process that ended without any output was killed: by the system, for lack of memory, or by a person.
    """
    text = str(error)
    if _CRASHED not in text:
        return None
    fatal = _FATAL.search(text)
    return "SIGKILL" if fatal is None else _SIGNALS.get(fatal[1].strip(), "SIGABRT")


class ProcessEnds:
    """Counts the processes of slots and splits that a signal ended, and logs each. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def record(self, what: str, error: BaseException | None) -> str | None:
        """Record how `what` ended; return the signal's name, if a signal ended it."""
        name = signal_of(error)
        if name is not None:
            with self._lock:
                self._counts[name] += 1
            log.error("the process of %s was ended by %s: %s", what, name, error)
        return name

    def counts(self) -> Mapping[str, int]:
        """Return how many there were since the worker's start, by the signal's name."""
        with self._lock:
            return dict(self._counts)
