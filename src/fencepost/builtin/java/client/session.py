"""What the connectors and tasks in a host have in common."""

from collections.abc import Callable

from fencepost.builtin.java.client.events import Events
from fencepost.builtin.java.client.line import Line
from fencepost.builtin.java.port import Figures


class SessionClient:
    """A connector or a task in a host: a connection, and a thread of its own there."""

    def __init__(self, line: Line, interrupt: Callable[[int], None], events: Events) -> None:
        """`interrupt` interrupts the thread of a session; `events` has its metrics."""
        self._line = line
        self._session: int = line.opened["session"]
        self._interrupt = interrupt
        self._events = events
        events.measure(self._session)

    def figures(self) -> Figures:
        return self._events.figures(self._session)

    def interrupt(self) -> None:
        self._interrupt(self._session)


class TaskClient(SessionClient):
    """A task in a host."""

    def stop(self, timeout_s: float) -> None:
        self._events.forget(self._session)
        self._line.finish("stop", timeout_s)
