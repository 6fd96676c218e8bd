"""The work that Spark does for a DataFrame task, as seen from outside: whether it moves, and where it is."""

import contextlib
import time
from collections.abc import Callable, Hashable, Sequence

from fencepost.spark.slot.running_jobs import FIGURES_S, RunningJobs
from fencepost.task.channel.split_message import Whereabouts
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control
from fencepost.task.life.remark import progress_timeout_s
from fencepost.worker.host.frame.jobs import FrameJobs


class SparkWork:
    """The `Elsewhere` of a task. Its driver thread waits for Spark inside one call, and moves as long as Spark does."""

    def __init__(
        self, spec: TaskSpec, control: Control, jobs: FrameJobs, whereabouts: Callable[[str], Sequence[Whereabouts]]
    ) -> None:
        """`whereabouts`: where the executors of a run were in the last seconds."""
        self._control = control
        self._jobs = jobs
        self._whereabouts = whereabouts
        self._grace_s = max(0.0, FIGURES_S - (progress_timeout_s(spec) or 0.0))
        self._figures: Hashable | None = None
        self._changed_s = 0.0

    @property
    def tag(self) -> str:
        return self._jobs.tag

    def saw(self, figures: Hashable | None) -> None:
        """Take the figures of the task's running jobs, if there are any. Called every second."""
        if figures is None:
            self._figures = None
            return
        now = time.monotonic()
        if figures != self._figures:
            self._figures, self._changed_s = figures, now
        if now - self._changed_s <= self._grace_s:
            self._control.move()

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
