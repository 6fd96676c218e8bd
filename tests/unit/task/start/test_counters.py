"""Since when a task has records open, and what of its counters the worker hears at once."""

import time

from fencepost.task.channel.message import RunState
from fencepost.task.channel.task_spec import OutputSpec, TaskSpec
from fencepost.task.control import Control
from fencepost.task.start.run import Counters, TaskRun


def sent(counters: Counters, count: int = 1) -> float:
    counters.sent(count, ["t"] * count)
    return counters.open_since_s


def test_no_transaction_is_open_before_the_first_record() -> None:
    counters = Counters()
    assert sent(counters, 0) == 0.0
    assert counters.started_s <= time.time()


def test_the_first_record_of_a_transaction_opens_it_and_its_commit_closes_it() -> None:
    counters = Counters()
    since_s = sent(counters)
    assert counters.started_s <= since_s <= time.time()
    assert sent(counters) == since_s
    counters.commit_begun(time.monotonic())
    assert counters.open_since_s == since_s
    counters.committed(time.monotonic())
    assert counters.open_since_s == 0.0


def test_records_sent_during_a_commit_stay_open_after_it() -> None:
    counters = Counters()
    first_s = sent(counters)
    counters.commit_begun(time.monotonic())
    assert sent(counters) == first_s
    counters.commit_begun(time.monotonic())
    counters.committed(time.monotonic())
    assert counters.open_since_s > first_s
    counters.committed(time.monotonic())
    assert counters.open_since_s == 0.0


def test_a_dead_letter_opens_a_transaction_too() -> None:
    counters = Counters()
    counters.sent_dead_letters(1)
    assert counters.open_since_s > 0.0


def test_no_transaction_is_open_after_an_abort_or_a_lost_producer() -> None:
    for end in (Counters.aborted, Counters.dropped):
        counters = Counters()
        sent(counters)
        counters.commit_begun(time.monotonic())
        sent(counters)
        end(counters)
        assert counters.open_since_s == 0.0


def test_sizes_of_spark_transactions_are_counted() -> None:
    counters = Counters()
    counters.moved(30)
    counters.moved(10, 20)
    assert (counters.transaction_size_min, counters.transaction_size_max) == (10, 30)
    assert (counters.transaction_size_total, counters.commits, counters.records_written) == (60, 3, 60)


def test_first_commit_is_reported_at_once_and_no_later_one_is() -> None:
    """The process may be killed before the next second, and the worker suspects tasks that have not committed."""
    spec = TaskSpec("c", 0, 1, "i", {}, {}, output=OutputSpec({}, ""))
    seen: list[tuple[RunState, int]] = []
    counters = Counters(state=RunState.RUNNING)
    run = TaskRun(spec, Control(is_paused=False), counters, lambda state: seen.append((state, counters.commits)))
    for _ in range(3):
        sent(counters)
        run.commit_begun(time.monotonic())
        run.committed(time.monotonic())
    assert seen == [(RunState.RUNNING, 1)]
