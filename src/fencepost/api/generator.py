"""A source's task as a generator function."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from fencepost.api.connector import ConfigT
from fencepost.api.errors import FatalError, RetriableError
from fencepost.api.source import SourceTask, SourceTaskContext
from fencepost.record import Batch, SourceRecord

Polled = Batch | SourceRecord | Sequence[SourceRecord] | None
"""What such a function yields: what a `poll` returns, or a single record."""

_IDLE_S = 1.0


def generator_task(
    function: Callable[[ConfigT, SourceTaskContext], Iterator[Polled]],
) -> type[SourceTask[ConfigT]]:
    """Return a task class from a generator function of the config and the context. Use it as a decorator.

    Each `yield` is what one `poll` returns, and with `transaction.boundary=poll` one transaction: a batch, a list of
    records, a record, or None if there is nothing now. Before a `yield None` call `context.wait`. When the task stops,
    the generator is closed at its `yield`, so `with` and `finally` release what it holds. A function that returns has
    no more records, and its task stays idle.

    A generator ends with its first error, so a RetriableError cannot be retried: it fails the task. Catch it in the
    function. To act on commits, write a `SourceTask`.

    >>> from collections.abc import Iterator
    >>> from fencepost.api import SourceConnector, SourceRecord, SourceTaskContext, generator_task, setting
    >>> @generator_task
    ... def count(config: "CounterConnector", context: SourceTaskContext) -> Iterator[SourceRecord]:
    ...     n = context.offset({"counter": "a"}).get("n", 0)
    ...     while not context.wait(config.pause_s):
    ...         n += 1
    ...         yield SourceRecord({"counter": "a"}, {"n": n}, "numbers", {"n": n})
    >>> class CounterConnector(SourceConnector):
    ...     task = count
    ...     pause_s: float = setting("pause.s", default=0.1)
    >>> from fencepost.testing import poll_once
    >>> poll_once(CounterConnector, offsets=[({"counter": "a"}, {"n": 41})])[0].value
    {'n': 42}
    """
    members = {
        "function": staticmethod(function),
        "__module__": function.__module__,
        "__qualname__": function.__qualname__,
        "__doc__": function.__doc__,
    }
    return type(function.__name__, (_GeneratorTask,), members)


class _GeneratorTask(SourceTask[Any]):
    """Calls the function at the start, and takes from its generator at each poll."""

    function: ClassVar[Callable[[Any, SourceTaskContext], Iterator[Polled]]]
    _generator: Iterator[Polled] = iter(())
    _is_over = False

    def start(self) -> None:
        made: Any = type(self).function(self.config, self.context)
        if not hasattr(made, "__next__"):
            raise FatalError(f"{_name(self)} returned {type(made).__name__} and not a generator: it has to `yield`")
        self._generator = made

    def poll(self) -> Batch | Sequence[SourceRecord] | None:
        if self._is_over:
            self.context.wait(_IDLE_S)
            return None
        try:
            given = next(self._generator)
        except StopIteration:
            self._is_over = True
            return None
        except RetriableError as error:
            raise FatalError(
                f"{_name(self)} raised RetriableError ({error}), which ends a generator, so it cannot be called again: "
                "catch it in the function, wait and go on, or write a SourceTask"
            ) from error
        return [given] if isinstance(given, SourceRecord) else given

    def stop(self) -> None:
        close = getattr(self._generator, "close", None)
        if close is not None:
            close()


def _name(task: SourceTask[Any]) -> str:
    return f"the generator function {type(task).__name__}"
