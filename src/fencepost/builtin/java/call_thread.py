"""A thread in which calls are made one after the other, and which never keeps its process alive.

`ThreadPoolExecutor` will not do: Python waits for its threads when it exits, and a call of Java may never return. The
process could not end then, nor its host, which ends with it.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

_Call = tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]


class CallThread:
    """Starts with its creation, and ends after `close` and the calls before it."""

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        """Make a call after those before it; returns its result, or error, to come."""
        future: Future[Any] = Future()
        self._calls.put((future, function, arguments))
        return future

    def close(self) -> None:
        """End the thread once all calls are made."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            future, function, arguments = call
            try:
                result = function(*arguments)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
            del call, future, function, arguments
