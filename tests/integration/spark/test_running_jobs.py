"""What Spark says of jobs and of the work of its driver: whether it moves, or waits for executors."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fencepost.spark.session.session import SparkRuntime
from fencepost.spark.slot.running_jobs import RunningJobs
from fencepost.testing import eventually

SLOW_S = 120.0


def sleeping(runtime: SparkRuntime, tag: str, tasks: int, ms: str) -> int:
    """Run a job whose tasks sleep for so long each, by their number `id`; returns how many have done so."""
    runtime.adopt_thread(tag)
    runtime.context.setInterruptOnCancel(True)
    numbers = runtime.session.range(0, tasks, 1, tasks)
    return len(numbers.selectExpr(f"reflect('java.lang.Thread', 'sleep', {ms}) as slept").collect())


def test_a_job_that_has_no_cores_waits_for_executors_until_it_has(runtime: SparkRuntime) -> None:
    jobs, cores = RunningJobs(), runtime.cores

    def waits(tag: str) -> bool | None:
        found = jobs.figures(runtime.context, frozenset({tag})).get(tag)
        return None if found is None else found.waits_for_executors

    with ThreadPoolExecutor(2) as pool:
        # Its first task ends soon, so that Spark writes down that the others run; else it does so every ten seconds.
        large = pool.submit(sleeping, runtime, "large", cores + 1, "if(id = 0, 300L, 600000L)")
        try:
            eventually(lambda: waits("large") is False, within_s=SLOW_S)
            small = pool.submit(sleeping, runtime, "small", 2, "1L")
            eventually(lambda: waits("small"), within_s=SLOW_S)
            assert waits("large") is False
        finally:
            runtime.context.cancelJobsWithTag("large")
        with pytest.raises(Exception, match="cancel"):
            large.result(SLOW_S)
        assert small.result(SLOW_S) == 2
    eventually(lambda: waits("small") is None, within_s=SLOW_S)


def test_a_thread_of_the_driver_allocates_memory_while_it_works_and_none_while_it_waits(runtime: SparkRuntime) -> None:
    """The call of Python's has not returned in both cases."""
    jobs, jvm = RunningJobs(), runtime.context._jvm
    latch, numbers = jvm.java.util.concurrent.CountDownLatch(1), list[int]()
    has_begun = threading.Event()

    def work() -> None:
        numbers.append(runtime.driver_thread())
        has_begun.set()
        getattr(latch, "await")()
        runtime.session.sql("select sum(id) from range(10) where id > 3")._jdf.queryExecution().executedPlan()

    def allocated() -> int:
        return jobs.allocated(runtime.context, numbers)[numbers[0]]

    def stays() -> bool:
        before = allocated()
        threading.Event().wait(0.05)
        return allocated() == before

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        try:
            assert has_begun.wait(SLOW_S)
            eventually(stays, within_s=SLOW_S)
            waiting = allocated()
            assert waiting > 0
        finally:
            latch.countDown()
        working.result(SLOW_S)
    assert allocated() > waiting or allocated() == -1


def test_a_thread_that_has_ended_has_no_figure(runtime: SparkRuntime) -> None:
    assert RunningJobs().allocated(runtime.context, [10**9]) == {10**9: -1}
