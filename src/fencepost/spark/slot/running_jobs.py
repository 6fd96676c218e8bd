"""What Spark's running jobs do: whether they move, and where their tasks are.

Spark's own store of statuses has it, with and without Spark's UI. Executors send the figures of running tasks every
`spark.executor.heartbeatInterval`, which is ten seconds, so a job that moves may seem to stand still for that long.

Between jobs Spark works in its driver, for the thread that has called it: it plans queries, lists files, and renames
what a write has left. Such work is seen by the memory that the thread allocates; a thread that waits allocates none.
"""

import logging
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

log = logging.getLogger(__name__)

FIGURES_S = 15.0
"""For how long the figures of a job may stay the same though it moves, and may say that no task of it runs."""

_FIGURES = (
    "numTasks",
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
_MOST_TASKS, _MOST_TEXT, _MOST_CALLS = 3, 4_000, 40


@dataclass(frozen=True)
class JobFigures:
    """What is known of the running jobs of one task.

    `figures` change as long as one of them moves. `waits_for_executors`: tasks are left to do, and none of them runs.
    """

    figures: Hashable
    waits_for_executors: bool


class RunningJobs:
    """Asks the JVM, whose answer may take long if that hangs. For one thread."""

    def __init__(self) -> None:
        self._tags: dict[int, frozenset[str]] = {}

    def figures(self, context: Any, tags: frozenset[str]) -> Mapping[str, JobFigures]:
        """Return figures of the running jobs with each of these tags; tags without a job are left out."""
        found: dict[str, list[tuple[int, list[_Stage]]]] = {}
        active = [int(job) for job in context.statusTracker().getActiveJobsIds()]
        self._tags = {job: tags_ for job, tags_ in self._tags.items() if job in active}
        for job in active:
            if job not in self._tags:
                self._tags[job] = _tags_of(context, job)
            for tag in tags & self._tags[job]:
                stages = _stages(context, job)
                figures = [{each: int(getattr(stage, each)()) for each in _FIGURES} for stage in stages]
                found.setdefault(tag, []).append((job, figures))
        return {tag: _summary(jobs) for tag, jobs in found.items()}

    def allocated(self, context: Any, threads: Iterable[int]) -> Mapping[int, int]:
        """Return how many bytes each of these threads of the driver's JVM has ever allocated; -1 if it has ended.

        Empty with a JVM that does not count them, unlike OpenJDK's.
        """
        try:
            bean = _threads(context)
            return {thread: int(bean.getThreadAllocatedBytes(thread)) for thread in threads}
        except Exception as error:
            log.debug("what Spark's driver does is not known: %s", error)
            return {}

    def driver_stack(self, context: Any, thread: int) -> str:
        """Return where a thread of the driver's JVM is, innermost call first; empty if it has ended."""
        info = _threads(context).getThreadInfo(thread, _MOST_CALLS)
        return "" if info is None else "\n".join(f"  at {call.toString()}" for call in info.getStackTrace())

    def stacks(self, context: Any, tag: str) -> str:
        """Return the stacks of the first tasks that run in jobs with this tag, in the JVMs of their executors."""
        jobs = [int(job) for job in context.statusTracker().getActiveJobsIds()]
        found = [dump for job in jobs if tag in _tags_of(context, job) for dump in _dumps(context, job)]
        return "\n".join(dump[:_MOST_TEXT] for dump in found[:_MOST_TASKS])


def _threads(context: Any) -> Any:
    return context._jvm.java.lang.management.ManagementFactory.getThreadMXBean()


_Stage = dict[str, int]


def _summary(jobs: list[tuple[int, list[_Stage]]]) -> JobFigures:
    stages = [stage for _, of_job in jobs for stage in of_job]
    runs = any(stage["numActiveTasks"] for stage in stages)
    is_left = any(stage["numTasks"] > stage["numCompleteTasks"] for stage in stages)
    figures = tuple((job, *(tuple(stage.values()) for stage in of_job)) for job, of_job in jobs)
    return JobFigures(figures, is_left and not runs)


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
    for task in _running_tasks(context, job):
        dump = context._jsc.sc().getTaskThreadDump(task.taskId(), task.executorId())
        if dump.isDefined():
            yield str(dump.get().toString())


def executors_of(context: Any, group: str) -> frozenset[str]:
    """Return the ids of the executors on which tasks of a job group run, among its first tasks."""
    jobs = context.statusTracker().getJobIdsForGroup(group)
    return frozenset(str(task.executorId()) for job in jobs for task in _running_tasks(context, int(job)))


def _running_tasks(context: Any, job: int) -> Iterator[Any]:
    for stage in _stages(context, job):
        tasks = _store(context).taskList(stage.stageId(), stage.attemptId(), 10 * _MOST_TASKS)
        yield from (task for task in (tasks.apply(n) for n in range(tasks.size())) if task.status() == "RUNNING")


class LeavingExecutors:
    """Finds the slots whose executors are about to be taken away, while there is still time to hand over.

    Whoever takes an executor away says so first: a standalone worker that is decommissioned, Kubernetes that deletes a
    pod, YARN that decommissions a node, dynamic allocation, or a signal. Spark's driver then starts no task there, and
    the executor ends once its last task has. Spark has no event for this, so its scheduler is asked: the driver's JVM,
    whose answer may take long if that hangs. For one thread.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._scheduler = context._jsc.sc().taskScheduler()
        self._leaving = self._scheduler.executorsPendingDecommission()

    def slots(self, groups: Mapping[str, str]) -> frozenset[str]:
        """Return the slots on executors that leave, by their job groups. One call of the JVM if none leaves."""
        if not self._leaving.size():
            return frozenset()
        return frozenset(slot for slot, group in groups.items() if self._leaves(group))

    def _leaves(self, group: str) -> bool:
        state = self._scheduler.getExecutorDecommissionState
        return any(state(executor).isDefined() for executor in executors_of(self._context, group))
