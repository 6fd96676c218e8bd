"""The DataFrame tasks that run, and a look at whether they move, as a slot has one at its tasks."""

import logging
import threading
from collections.abc import Callable, Sequence

from fencepost.spark.slot.running_jobs import RunningJobs
from fencepost.worker.host.frame.jobs import FrameRuntime
from fencepost.worker.host.frame.life import FrameLife
from fencepost.worker.supervision.port import STARTING

log = logging.getLogger(__name__)

_EVERY_S = 1.0


class RunningFrames:
    """The tasks that run, and on what. Thread-safe.

    Two threads watch them, one of which asks Spark, whose JVM may hang. The threads end when there is no task any more.
    """

    def __init__(self) -> None:
        self.runtime: FrameRuntime | str = STARTING  # or why there is no Spark
        self._lock = threading.Lock()
        self._tasks: dict[str, FrameLife] = {}
        self._watching: set[str] = set()

    def attach(self, runtime: FrameRuntime | str) -> list[FrameLife]:
        """Use this Spark from now on; returns the tasks that are lost if there is none."""
        with self._lock:
            self.runtime = runtime
            lost = list(self._tasks.values()) if isinstance(runtime, str) else []
            if lost:
                self._tasks.clear()
        return lost

    def add(self, task: FrameLife, runtime: FrameRuntime) -> bool:
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

    def find(self, incarnation: str) -> FrameLife | None:
        with self._lock:
            return self._tasks.get(incarnation)

    def remove(self, incarnation: str) -> FrameLife | None:
        with self._lock:
            return self._tasks.pop(incarnation, None)

    def _watch(self, name: str, look: Callable[[Sequence[FrameLife], FrameRuntime | str], None]) -> None:
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


def _look(tasks: Sequence[FrameLife], runtime: FrameRuntime | str) -> None:
    for task in tasks:
        task.look()


class _Asking:
    """Asks Spark about the tasks whose threads are inside longer calls."""

    def __init__(self) -> None:
        self._jobs = RunningJobs()

    def look(self, tasks: Sequence[FrameLife], runtime: FrameRuntime | str) -> None:
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
