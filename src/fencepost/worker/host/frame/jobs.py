"""The Spark jobs of a DataFrame task, and their work as seen from outside: whether it moves, and where it is."""

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

from fencepost.config.connector import RuntimeChoice
from fencepost.hook.hosted_task import InOtherProcess
from fencepost.spark.slot.cores import CoreUse
from fencepost.spark.slot.job import cancel_group
from fencepost.spark.slot.running_jobs import FIGURES_S, JobFigures, RunningJobs
from fencepost.task.channel.split_message import Whereabouts
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control
from fencepost.task.start.progress import utc_of

if TYPE_CHECKING:
    from fencepost.spark.session.session import SparkRuntime

log = logging.getLogger(__name__)


class FrameJobs:
    """Jobs that run in one group of jobs at a time, so that they can be cancelled. `task` is named in logs.

    All jobs of this start of the task have the `tag`. `run` is what the channel knows the work by that is under way.
    `driver_thread` is the number of the thread in Spark's driver that works for the thread adopted last.
    """

    def __init__(self, runtime: "SparkRuntime", task: str) -> None:
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


_LONG = 10  # times the progress deadline


class ExecutorWait:
    """How long the jobs of one task have waited for executors, which is no fault of its code.

    `text` says so in its status, once that has lasted longer than figures may be late; None otherwise.
    """

    def __init__(self, task: str) -> None:
        self.text: str | None = None
        self._task = task
        self._since_s: float | None = None

    @property
    def is_on(self) -> bool:
        """Say whether they did when they were last looked at."""
        return self._since_s is not None

    def note(self, *, waits: bool) -> None:
        """Take whether they wait now. Called every second."""
        now = time.monotonic()
        if not waits:
            self._since_s = None
            if self.text is not None:
                self.text = None
                log.info("task %s: its Spark jobs have executors", self._task)
        elif self._since_s is None:
            self._since_s = now
        elif self.text is None and now - self._since_s >= FIGURES_S:
            self.text = (
                f"Waits for executors: since {utc_of(self._since_s)} no task of its Spark jobs runs, and Spark has no "
                "free core for those that are left. The cores are in use, or the cluster's manager gives no executors "
                "(see spark.dynamicAllocation and spark.cores.max)"
            )
            log.warning("task %s: %s", self._task, self.text)


class DriverWork:
    """How long Spark's driver has been at one call of a task without a job.

    It moves as long as it allocates, and whoever tries something again and again without end does so, too. `text` says
    where it is, in the task's status, once that has lasted for many times the progress deadline; None otherwise.
    """

    def __init__(self, task: str, control: Control, timeout_s: float | None, stack: Callable[[], str]) -> None:
        self.text: str | None = None
        self._control = control
        self._moved_at: float | None = None
        self._allocated: int | None = None
        self._task = task
        self._after_s = None if timeout_s is None else _LONG * timeout_s
        self._stack = stack
        self._since_s: float | None = None

    def move(self) -> None:
        """Record that the task moves, though its thread has not returned."""
        self._control.move()
        self._moved_at = self._control.moved_at

    def look(self) -> None:
        """See whether the task's thread has moved by itself, and is in another call."""
        if self._control.moved_at != self._moved_at:
            self._moved_at = self._control.moved_at
            self.began(self._moved_at)

    def began(self, at_s: float) -> None:
        """Take that a call began, or that a job runs for it."""
        self._since_s = at_s
        if self.text is not None:
            self.text = None
            log.info("task %s: its Spark driver is no longer at the same work", self._task)

    def has_worked(self, allocated: int | None) -> bool:
        """Say whether it has worked since the last time, by the bytes that its thread has allocated so far."""
        before, self._allocated = self._allocated, allocated
        return before is not None and before != allocated

    def works_on(self) -> None:
        """Take that the driver works, and the call has not returned."""
        if self.text is not None or self._after_s is None or self._since_s is None:
            return
        if time.monotonic() - self._since_s < self._after_s:
            return
        stack = ""
        with contextlib.suppress(Exception):  # it has just ended, or the JVM
            stack = self._stack()
        self.text = (
            f"Spark's driver has been at one call of the task since {utc_of(self._since_s)} without a job: for "
            f"{_LONG} times {RuntimeChoice.key_of('progress_timeout_ms')}. At {utc_of(time.monotonic())} it worked, "
            "so the task did not stand still: there is much to do, or something is tried again and again without end"
            + (f". It is here:\n{stack}" if stack else "")
        )
        log.warning("task %s: %s", self._task, self.text)


class SparkWork(InOtherProcess):
    """What a task does in Spark. Its driver thread waits for Spark inside one call, and moves as long as Spark does."""

    def __init__(
        self, spec: TaskSpec, control: Control, jobs: FrameJobs, whereabouts: Callable[[str], Sequence[Whereabouts]]
    ) -> None:
        """`whereabouts`: where the executors of a run were in the last seconds."""
        timeout_s = spec.run.progress_timeout_ms / 1000 or None
        self._control = control
        self._wait = ExecutorWait(spec.id)
        self._driver = DriverWork(spec.id, control, timeout_s, self._driver_stack)
        self._jobs = jobs
        self._whereabouts = whereabouts
        self._grace_s = max(0.0, FIGURES_S - (timeout_s or 0.0))
        self._figures: Hashable | None = None
        self._changed_s = 0.0

    @property
    def tag(self) -> str:
        return self._jobs.tag

    @property
    def driver_thread(self) -> int | None:
        """Return the number of the thread in Spark's driver that works for the task, if there is one."""
        return self._jobs.driver_thread

    @property
    def text(self) -> str | None:
        """Return what is said in the task's status of work that lasts, if anything is."""
        return self._wait.text or self._driver.text

    def needs_figures(self, after_s: float) -> bool:
        """Say whether Spark is to be asked: a call has lasted `after_s`, or what was seen last may be over."""
        return time.monotonic() - self._control.moved_at > after_s or self._wait.is_on or self.text is not None

    def saw(self, jobs: JobFigures | None, allocated: int | None) -> None:
        """Take the figures of the task's running jobs, if there are any. Called every second.

        `allocated`: the bytes of memory that the task's thread in the driver has allocated so far, if that is known.
        """
        self._driver.look()
        works = self._driver.has_worked(allocated)
        self._wait.note(waits=jobs is not None and jobs.waits_for_executors)
        if self._wait.is_on or works:
            self._driver.move()
        if jobs is None:
            self._figures = None
            if works:
                self._driver.works_on()
            return
        now = time.monotonic()
        self._driver.began(now)
        if jobs.figures != self._figures:
            self._figures, self._changed_s = jobs.figures, now
        if now - self._changed_s <= self._grace_s:
            self._driver.move()

    def waits_since(self) -> float | None:
        return None

    def waits_for_kafka(self) -> bool:
        return any(each.waits_for_kafka for each in self._whereabouts(self._jobs.run))

    def stack(self) -> str:
        executors = [f"{each.place}:\n{each.stack}" for each in self._whereabouts(self._jobs.run)]
        jvm = ""
        with contextlib.suppress(Exception):  # its tasks have just ended, or the JVM
            jvm = RunningJobs().stacks(self._jobs.runtime.session.sparkContext, self.tag)
        return "\n".join(filter(None, (*executors, jvm)))

    def _driver_stack(self) -> str:
        thread = self.driver_thread
        return "" if thread is None else RunningJobs().driver_stack(self._jobs.runtime.session.sparkContext, thread)
