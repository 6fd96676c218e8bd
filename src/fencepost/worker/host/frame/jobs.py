"""The Spark jobs of a DataFrame task."""

import logging
import threading
import uuid
from typing import Any, Protocol

from fencepost.spark.slot.cores import CoreUse
from fencepost.spark.slot.job import cancel_group

log = logging.getLogger(__name__)


class FrameRuntime(Protocol):
    """The part of `SparkRuntime` that is needed here."""

    @property
    def session(self) -> Any: ...

    @property
    def is_alive(self) -> bool: ...

    def adopt_thread(self, tag: str) -> None: ...

    def driver_thread(self) -> int: ...


class FrameJobs:
    """Jobs that run in one group of jobs at a time, so that they can be cancelled. `task` is named in logs.

    All jobs of this start of the task have the `tag`. `run` is what the channel knows the work by that is under way.
    `driver_thread` is the number of the thread in Spark's driver that works for the thread adopted last.
    """

    def __init__(self, runtime: FrameRuntime, task: str) -> None:
        self.runtime = runtime
        self.task = task
        self.tag = f"frame-{uuid.uuid4().hex}"
        self.group: str | None = None  # of the jobs that run
        self.run = ""
        self.cores: list[CoreUse] = []  # that are held for them: one or none
        self.driver_thread: int | None = None
        self._adopted: threading.Thread | None = None

    def adopt_thread(self) -> None:
        """Let the calling thread run jobs of this task."""
        self.runtime.adopt_thread(self.tag)
        calling = threading.current_thread()
        if calling is not self._adopted:  # idle tasks come here several times a second, and to ask takes a millisecond
            self._adopted, self.driver_thread = calling, self.runtime.driver_thread()

    def cancel(self, group: str) -> None:
        try:
            cancel_group(self.runtime.session.sparkContext, group)
        except Exception as error:  # the JVM is gone, and its jobs with it
            log.info("task %s: a job was not cancelled: %s", self.task, error)

    def cancel_apart(self) -> None:
        """Cancel the jobs that run in a separate thread, as Spark's JVM may hang."""
        group = self.group
        if group is not None:
            threading.Thread(target=self.cancel, args=(group,), name=f"cancel-{self.task}", daemon=True).start()
