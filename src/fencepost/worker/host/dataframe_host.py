"""The host for tasks of DataFrame connectors: each has a driver thread that runs one split, or epoch, after the other.

A split, or a few small ones together, is one Spark job with one partition, so a slow split delays no other task
(docs/decisions). Its executor initialises its producer, gets admitted and reads the position like any task, through
the channel.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fencepost.config.reference import RawConfig
from fencepost.config.worker import WorkerConfig
from fencepost.spark.slot.cores import CoreLedger
from fencepost.spark.slot.job import ProcessEnds
from fencepost.spark.slot.running_jobs import RunningJobs
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control
from fencepost.worker.host.frame.task import FrameTask
from fencepost.worker.host.split.channel import SplitChannel
from fencepost.worker.plan import is_query_config
from fencepost.worker.supervision.admission import Admissions
from fencepost.worker.supervision.port import STARTING, HostEvents, NoRoomError

if TYPE_CHECKING:
    from fencepost.spark.session.session import SparkRuntime

log = logging.getLogger(__name__)

_EVERY_S = 1.0


class RunningFrames:
    """The tasks that run, and on what. Thread-safe.

    Two threads watch them, one of which asks Spark, whose JVM may hang. The threads end when there is no task any more.
    """

    def __init__(self) -> None:
        self.runtime: SparkRuntime | str = STARTING  # or why there is no Spark
        self._lock = threading.Lock()
        self._tasks: dict[str, FrameTask] = {}
        self._watching: set[str] = set()

    def attach(self, runtime: "SparkRuntime | str") -> list[FrameTask]:
        """Use this Spark from now on; returns the tasks that are lost if there is none."""
        with self._lock:
            self.runtime = runtime
            lost = list(self._tasks.values()) if isinstance(runtime, str) else []
            if lost:
                self._tasks.clear()
        return lost

    def add(self, task: FrameTask, runtime: "SparkRuntime") -> bool:
        """Add a task, unless its Spark has gone; returns whether it was added."""
        with self._lock:
            if self.runtime is not runtime:
                return False
            self._tasks[task.spec.incarnation] = task
            for name, look in (("frame-watch", _look), ("frame-spark", _Asking().look)):
                if name not in self._watching:
                    self._watching.add(name)
                    threading.Thread(target=self._watch, args=(name, look), name=name, daemon=True).start()
        return True

    def find(self, incarnation: str) -> FrameTask | None:
        with self._lock:
            return self._tasks.get(incarnation)

    def remove(self, incarnation: str) -> FrameTask | None:
        with self._lock:
            return self._tasks.pop(incarnation, None)

    def _watch(self, name: str, look: Callable[[Sequence[FrameTask], "SparkRuntime | str"], None]) -> None:
        pause = threading.Event()
        while True:
            pause.wait(_EVERY_S)
            with self._lock:
                tasks, runtime = list(self._tasks.values()), self.runtime
                if not tasks:
                    self._watching.discard(name)
                    return
            try:
                look(tasks, runtime)
            except Exception:  # the next look may succeed, and without this thread nobody would look again
                log.exception("looking at DataFrame tasks failed")


def _look(tasks: Sequence[FrameTask], runtime: "SparkRuntime | str") -> None:
    for task in tasks:
        task.look()


class _Asking:
    def __init__(self) -> None:
        self._jobs = RunningJobs()

    def look(self, tasks: Sequence[FrameTask], runtime: "SparkRuntime | str") -> None:
        waiting = {task.work.tag: task for task in tasks if task.work.needs_figures(_EVERY_S)}
        if not waiting or isinstance(runtime, str):
            return
        threads = {thread for task in waiting.values() if (thread := task.work.driver_thread) is not None}
        try:
            context = runtime.session.sparkContext
            found = self._jobs.figures(context, frozenset(waiting))
            allocated = self._jobs.allocated(context, threads)
        except Exception as error:  # a job has just ended, or the JVM
            log.debug("what Spark's jobs do is not known: %s", error)
            return
        for tag, task in waiting.items():
            thread = task.work.driver_thread
            task.work.saw(found.get(tag), None if thread is None else allocated.get(thread))


class DataFrameHost:
    """A `TaskHost` for DataFrame connectors."""

    def __init__(
        self,
        worker: WorkerConfig,
        events: HostEvents,
        ledger: CoreLedger,
        admissions: Admissions,
        connector_of: Callable[[RawConfig], type[Any]],
        channel: SplitChannel,
        ends: ProcessEnds,
    ) -> None:
        self.worker = worker
        self.ends = ends
        self.events = events
        self.ledger = ledger
        self.admissions = admissions
        self.connector_of = connector_of
        self.channel = channel
        self._running = RunningFrames()

    def attach(self, runtime: "SparkRuntime | str") -> None:
        """Use a Spark that is ready. A text says why there is none; all that ran on it is gone, and starts again."""
        lost = self._running.attach(runtime)
        for task in lost:
            task.lost()
        if lost:
            self.events.lost([task.spec.incarnation for task in lost], "Spark has gone")
        self.events.room_changed()

    # TaskHost

    def start(self, spec: TaskSpec) -> None:
        runtime = self._running.runtime
        if isinstance(runtime, str):
            raise NoRoomError(runtime)
        refusal = self.ledger.refusal_of_splits()
        if refusal is not None:
            raise NoRoomError(refusal)
        task = self._task(spec, runtime)
        if not self._running.add(task, runtime):
            raise NoRoomError("Spark is restarting")
        task.thread.start()

    def stop(self, incarnation: str) -> None:
        self._control(incarnation, Control.stop)

    def pause(self, incarnation: str) -> None:
        self._control(incarnation, Control.pause)

    def resume(self, incarnation: str) -> None:
        self._control(incarnation, Control.resume)

    def abandon(self, incarnation: str) -> Sequence[str]:
        """Cancel the running split; the next holder of its transactional id ends its transaction."""
        task = self._running.remove(incarnation)
        if task is not None:
            task.abandon()
        return ()

    def ended(self, incarnation: str) -> None:
        self._running.remove(incarnation)

    def _control(self, incarnation: str, act: Callable[[Control], None]) -> None:
        task = self._running.find(incarnation)
        if task is not None:
            act(task.control)

    def _task(self, spec: TaskSpec, runtime: "SparkRuntime") -> FrameTask:
        """Return a task, not started. The first one imports PySpark, unless Spark's start has done so."""
        from fencepost.worker.host.epoch.sink_and_stream import EpochSinkTask, EpochStreamTask
        from fencepost.worker.host.query import QueryTask
        from fencepost.worker.host.split.task import SplitTask

        if is_query_config(spec.connector_config):
            return QueryTask(self, spec, runtime)
        kind = EpochStreamTask if spec.is_stream else EpochSinkTask if spec.is_sink else SplitTask
        return kind(self, spec, runtime)
