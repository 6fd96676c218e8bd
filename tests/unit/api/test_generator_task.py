"""A generator function as a task."""

from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.api import (
    Batch,
    FatalError,
    RetriableError,
    SourceConnector,
    SourceRecord,
    SourceTask,
    SourceTaskContext,
    generator_task,
    setting,
)
from fencepost.testing import OffsetStore, SourceConformance, SourceRun


def record(n: int) -> SourceRecord:
    return SourceRecord({"c": 1}, {"n": n}, "t", n)


@generator_task
def count(
    config: "CountConnector", context: SourceTaskContext
) -> Iterator[Batch | SourceRecord | list[SourceRecord] | None]:
    """Counts to a number."""
    n = context.offset({"c": 1}).get("n", 0)
    try:
        while n < config.last:
            n += 1
            yield record(n)
        yield None
        yield [record(n + 1), record(n + 2)]
        yield Batch.of_records([record(n + 3)])[0]
    finally:
        closed.append(n)


closed: list[int] = []


class CountConnector(SourceConnector):
    task = count
    last: int = setting("last", default=3)


@generator_task
def numbers(config: "NumbersConnector", context: SourceTaskContext) -> Iterator[SourceRecord | None]:
    for n in range(context.offset({"c": 1}).get("n", 0) + 1, 8):
        yield record(n)
    while not context.wait(1.0):
        yield None


class NumbersConnector(SourceConnector):
    task = numbers


class TestNumbers(SourceConformance):
    connector = NumbersConnector


def test_generator_task_is_a_class_with_the_functions_name_and_docstring() -> None:
    assert issubclass(count, SourceTask)
    assert (count.__name__, count.__module__, count.__doc__) == ("count", __name__, "Counts to a number.")


def test_each_yield_of_a_generator_task_answers_one_poll() -> None:
    run = SourceRun(CountConnector, {"last": "2"})
    assert [[r.value for r in run.poll()] for _ in range(7)] == [[1], [2], [], [3, 4], [5], [], []]


def test_generator_task_begins_at_the_committed_offset() -> None:
    run = SourceRun(CountConnector, store=OffsetStore([({"c": 1}, {"n": 2})]))
    assert run.poll()[0].value == 3


def test_stop_closes_the_generator_of_a_generator_task() -> None:
    closed.clear()
    run = SourceRun(CountConnector)
    run.poll()
    run.stop()
    assert closed == [1]


def test_retriable_error_raised_by_a_generator_fails_its_task() -> None:
    @generator_task
    def fails(config: Any, context: SourceTaskContext) -> Iterator[SourceRecord]:
        yield record(1)
        raise RetriableError("the feed is away")

    class Fails(SourceConnector):
        task = fails

    run = SourceRun(Fails)
    run.poll()
    with pytest.raises(FatalError, match=r"fails raised RetriableError \(the feed is away\).*catch it in the function"):
        run.poll()


def test_task_function_that_does_not_yield_is_refused_at_start() -> None:
    @generator_task
    def returns(config: Any, context: SourceTaskContext) -> Any:
        return [record(1)]

    class Returns(SourceConnector):
        task = returns

    with pytest.raises(FatalError, match="returns returned list and not a generator: it has to `yield`"):
        SourceRun(Returns)
