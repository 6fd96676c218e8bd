"""When a stream's transaction ends: `transaction.boundary`."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

_MOST_RECORDS = 20_000
_CATCHES_UP_S = 0.05


@dataclass(frozen=True, slots=True)
class OpenTransactionState:
    """The state of a transaction that began at `begun_s` (`time.monotonic`).

    `is_committing`: the transaction before it is not committed yet. `has_more`: the last batch was as large as
    possible, so the next one is already waiting.
    """

    begun_s: float
    records: int
    is_committing: bool = False
    has_more: bool = False


class StreamBoundary(ABC):
    """Decides when the current transaction is handed over. The task's thread asks after each batch."""

    commits_when_idle = False
    """Whether a transaction also ends when nothing more waits to be read, once the one before it is committed."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock

    @abstractmethod
    def is_due(self, written: OpenTransactionState) -> bool:
        """Say whether the transaction is to be handed over now."""

    @abstractmethod
    def waits_s(self, begun_s: float) -> float:
        """Return for how long no check is needed."""


class StreamPollBoundary(StreamBoundary):
    """Each batch is a transaction; batches that come during a commit, or already wait, are combined."""

    commits_when_idle = True

    def is_due(self, written: OpenTransactionState) -> bool:
        if written.records >= _MOST_RECORDS:
            return True
        catches_up = written.has_more and self._clock() - written.begun_s < _CATCHES_UP_S
        return not (written.is_committing or catches_up)

    def waits_s(self, begun_s: float) -> float:
        return 0.0


class StreamIntervalBoundary(StreamBoundary):
    """A transaction ends `interval_s` after its first record was sent."""

    def __init__(self, interval_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self._interval_s = interval_s

    def is_due(self, written: OpenTransactionState) -> bool:
        return self.waits_s(written.begun_s) <= 0

    def waits_s(self, begun_s: float) -> float:
        return begun_s + self._interval_s - self._clock()


def stream_boundary_of(name: str, interval_ms: int) -> StreamBoundary:
    """Return the boundary of that name: poll or interval."""
    return StreamIntervalBoundary(interval_ms / 1000) if name == "interval" else StreamPollBoundary()
