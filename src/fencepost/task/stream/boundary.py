"""When a stream's transaction ends: `transaction.boundary`."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable

_MOST_RECORDS = 20_000


class StreamBoundary(ABC):
    """Decides when the transaction that is being written is handed over. The task's thread asks, after each batch."""

    commits_when_idle = False
    """Whether it ends, once the one before it is committed, when nothing more waits to be read."""

    @abstractmethod
    def is_due(self, begun_s: float, records: int, is_committing: bool) -> bool:
        """Say so of one that began at `begun_s` (`time.monotonic`); `is_committing`: the one before it is under way."""

    @abstractmethod
    def waits_s(self, begun_s: float) -> float:
        """Return for how long nobody has to look."""


class PollBoundary(StreamBoundary):
    """Each batch is a transaction; those that come while one is being committed are the next one together."""

    commits_when_idle = True

    def is_due(self, begun_s: float, records: int, is_committing: bool) -> bool:
        return not is_committing or records >= _MOST_RECORDS

    def waits_s(self, begun_s: float) -> float:
        return 0.0


class IntervalBoundary(StreamBoundary):
    """A transaction ends `interval_s` after its first record was sent."""

    def __init__(self, interval_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval_s = interval_s
        self._clock = clock

    def is_due(self, begun_s: float, records: int, is_committing: bool) -> bool:
        return self.waits_s(begun_s) <= 0

    def waits_s(self, begun_s: float) -> float:
        return begun_s + self._interval_s - self._clock()


def stream_boundary_of(name: str, interval_ms: int) -> StreamBoundary:
    """Return the boundary of that name: poll or interval."""
    return IntervalBoundary(interval_ms / 1000) if name == "interval" else PollBoundary()
