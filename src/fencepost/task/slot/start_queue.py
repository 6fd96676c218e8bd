"""How many tasks of a slot start at the same moment."""

from collections import deque


class StartQueue:
    """Lets a few tasks start at a time.

    A thousand producers that connect at the same moment overflow the broker's backlog, and TCP lets the dropped ones
    wait for seconds. A task's place is free again once it has reported anything, or after `reserved_s`.
    """

    def __init__(self, most: int = 24, reserved_s: float = 5.0) -> None:
        self._most = most
        self._reserved_s = reserved_s
        self._waiting: deque[str] = deque()
        self._starting: dict[str, float] = {}

    def put(self, incarnation: str) -> None:
        self._waiting.append(incarnation)

    def done(self, incarnation: str) -> None:
        self._starting.pop(incarnation, None)

    def take(self, now: float) -> list[str]:
        """Return the tasks that may start now."""
        self._starting = {i: t for i, t in self._starting.items() if now - t < self._reserved_s}
        count = min(self._most - len(self._starting), len(self._waiting))
        taken = [self._waiting.popleft() for _ in range(count)]
        self._starting.update(dict.fromkeys(taken, now))
        return taken
