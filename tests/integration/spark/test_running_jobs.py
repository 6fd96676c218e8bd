"""What Spark says of jobs and of the work of its driver: whether it moves, or waits for executors."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import cast

import pytest

from fencepost.spark.session.session import SparkRuntime
from fencepost.spark.slot.running_jobs import RunningJobs
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control
from fencepost.testing import eventually
from fencepost.worker.host.dataframe_host import _Asking
from fencepost.worker.host.frame.jobs import FrameJobs, SparkWork
from fencepost.worker.host.frame.task import FrameTask

SLOW_S = 120.0


def sleeping(runtime: SparkRuntime, tag: str, seconds: Sequence[float]) -> int:
    """Run a job with a task for each of these times, which sleeps for so long; returns how many have done so."""

    def sleep(for_s: float) -> None:
        import time

        time.sleep(for_s)

    runtime.adopt_thread(tag)
    runtime.context.setInterruptOnCancel(True)
    return runtime.context.parallelize(seconds, len(seconds)).map(sleep).count()


def test_a_job_that_has_no_cores_waits_for_executors_until_it_has(runtime: SparkRuntime) -> None:
    jobs, cores = RunningJobs(), runtime.cores

    def waits(tag: str) -> bool | None:
        found = jobs.figures(runtime.context, frozenset({tag})).get(tag)
        return None if found is None else found.waits_for_executors

    with ThreadPoolExecutor(2) as pool:
        # Its first task ends soon, so that Spark writes down that the others run; else it does so every ten seconds.
        large = pool.submit(sleeping, runtime, "large", [0.3] + cores * [600.0])
        try:
            eventually(lambda: waits("large") is False, within_s=SLOW_S)
            small = pool.submit(sleeping, runtime, "small", [0.001, 0.001])
            eventually(lambda: waits("small"), within_s=SLOW_S)
            assert waits("large") is False
        finally:
            runtime.context.cancelJobsWithTag("large")
        with pytest.raises(Exception, match="cancel"):
            large.result(SLOW_S)
        assert small.result(SLOW_S) == 2
    eventually(lambda: waits("small") is None, within_s=SLOW_S)


def test_a_task_makes_progress_while_the_driver_computes_but_not_while_it_waits(runtime: SparkRuntime) -> None:
    control, jobs = Control(is_paused=False), FrameJobs(runtime, "c-0")
    work = SparkWork(TaskSpec("c", 0, 1, "i", {}, {}), control, jobs, lambda run: [])
    task, asking = cast(FrameTask, SimpleNamespace(control=control, work=work)), _Asking()
    latch = runtime.context._jvm.java.util.concurrent.CountDownLatch(1)
    has_begun, over = threading.Event(), threading.Event()

    def call() -> None:
        jobs.adopt_thread()
        has_begun.set()
        getattr(latch, "await")()
        while not over.is_set():
            runtime.session.sql("select sum(id) from range(10) where id > 3")._jdf.queryExecution().executedPlan()

    def moves() -> bool:
        control.moved_at = before = time.monotonic() - 60
        asking.look([task], runtime)
        return control.moved_at > before

    with ThreadPoolExecutor(1) as pool:
        calling = pool.submit(call)
        try:
            assert has_begun.wait(SLOW_S)
            eventually(lambda: not moves() and not moves(), within_s=SLOW_S)
            assert "java.util.concurrent.CountDownLatch.await" in work._driver_stack()
            latch.countDown()
            eventually(moves, within_s=SLOW_S)
        finally:
            latch.countDown()
            over.set()
        calling.result(SLOW_S)


def test_allocated_bytes_of_an_ended_thread_are_unknown(runtime: SparkRuntime) -> None:
    assert RunningJobs().allocated(runtime.context, [10**9]) == {10**9: -1}
