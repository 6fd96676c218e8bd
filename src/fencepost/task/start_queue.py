"""How many tasks of a slot begin at the same moment."""

from collections import deque


class StartQueue:
    """Which tasks may begin: a few at a time.

    A thousand producers that connect at the same moment overrun the broker's backlog, and TCP lets those that were
    dropped wait for seconds. A place is given on when a task has said anything, or has taken `patience_s`.
    """

    def __init__(self, most: int = 24, patience_s: float = 5.0) -> None:
        self._most = most
        self._patience_s = patience_s
        self._waiting: deque[str] = deque()
        self._starting: dict[str, float] = {}

    def put(self, incarnation: str) -> None:
        self._waiting.append(incarnation)

    def done(self, incarnation: str) -> None:
        self._starting.pop(incarnation, None)

    def take(self, now: float) -> list[str]:
        """Return those whose turn it is."""
        self._starting = {i: t for i, t in self._starting.items() if now - t < self._patience_s}
        count = min(self._most - len(self._starting), len(self._waiting))
        taken = [self._waiting.popleft() for _ in range(count)]
        self._starting.update(dict.fromkeys(taken, now))
        return taken
