"""What Spark's running jobs do: whether they move, and where their tasks are.

Spark's own store of statuses has it, with and without Spark's UI. Executors send the figures of running tasks every
`spark.executor.heartbeatInterval`, which is ten seconds, so a job that moves may seem to stand still for that long.
"""

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

FIGURES_S = 15.0
"""For how long the figures of a job may stay the same though it moves."""

_FIGURES = (
    "numActiveTasks",
    "numCompleteTasks",
    "numFailedTasks",
    "inputBytes",
    "inputRecords",
    "outputBytes",
    "outputRecords",
    "shuffleReadBytes",
    "shuffleReadRecords",
    "shuffleWriteBytes",
    "shuffleWriteRecords",
    "memoryBytesSpilled",
    "diskBytesSpilled",
)
_MOST_TASKS, _MOST_TEXT = 3, 4_000


class RunningJobs:
    """Asks the JVM, whose answer may take long if that hangs. For one thread."""

    def __init__(self) -> None:
        self._tags: dict[int, frozenset[str]] = {}

    def figures(self, context: Any, tags: frozenset[str]) -> Mapping[str, Hashable]:
        """Return figures of the running jobs with each of these tags, which change as long as one of the jobs moves.

        Tags without a job are left out.
        """
        found: dict[str, list[Hashable]] = {}
        active = [int(job) for job in context.statusTracker().getActiveJobsIds()]
        self._tags = {job: tags_ for job, tags_ in self._tags.items() if job in active}
        for job in active:
            if job not in self._tags:
                self._tags[job] = _tags_of(context, job)
            for tag in tags & self._tags[job]:
                stages = [tuple(getattr(stage, each)() for each in _FIGURES) for stage in _stages(context, job)]
                found.setdefault(tag, []).append((job, *stages))
        return {tag: tuple(jobs) for tag, jobs in found.items()}

    def stacks(self, context: Any, tag: str) -> str:
        """Return the stacks of the first tasks that run in jobs with this tag, in the JVMs of their executors."""
        jobs = [int(job) for job in context.statusTracker().getActiveJobsIds()]
        found = [dump for job in jobs if tag in _tags_of(context, job) for dump in _dumps(context, job)]
        return "\n".join(dump[:_MOST_TEXT] for dump in found[:_MOST_TASKS])


def _store(context: Any) -> Any:
    return context._jsc.sc().statusStore()


def _tags_of(context: Any, job: int) -> frozenset[str]:
    return frozenset(str(_store(context).job(job).jobTags().mkString("\n")).split("\n"))


def _stages(context: Any, job: int) -> Iterator[Any]:
    """Yield the stages of a running job that have begun and are not done."""
    info = context.statusTracker().getJobInfo(job)
    for stage in () if info is None else info.stageIds:
        if context.statusTracker().getStageInfo(stage) is not None:
            found = _store(context).lastStageAttempt(stage)
            if str(found.status()) == "ACTIVE":
                yield found


def _dumps(context: Any, job: int) -> Iterator[str]:
    for stage in _stages(context, job):
        tasks = _store(context).taskList(stage.stageId(), stage.attemptId(), 10 * _MOST_TASKS)
        for task in (tasks.apply(n) for n in range(tasks.size())):
            if task.status() == "RUNNING":
                dump = context._jsc.sc().getTaskThreadDump(task.taskId(), task.executorId())
                if dump.isDefined():
                    yield str(dump.get().toString())
