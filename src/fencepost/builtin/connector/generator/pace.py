"""A steady number of records per second."""

import time
from collections.abc import Callable


class Pace:
    """Says how many records may be sent now without exceeding `per_second`; 0 or less means no limit.

    Unused capacity is kept for only a tenth of a second, so there is no burst after a start or a pause.
    """

    MOST_SAVED_S = 0.1

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second = per_second
        self._clock = clock
        self._saved = 0.0
        self._at_s = clock()

    @property
    def is_unlimited(self) -> bool:
        return self.per_second <= 0

    def take(self, limit: int) -> int:
        """Return how many records may be sent now, at most `limit`, and count them as sent."""
        if self.is_unlimited:
            return limit
        now_s = self._clock()
        most = max(1.0, self.per_second * self.MOST_SAVED_S)
        self._saved = min(most, self._saved + (now_s - self._at_s) * self.per_second)
        self._at_s = now_s
        taken = min(limit, int(self._saved))
        self._saved -= taken
        return taken

    def wait_s(self) -> float:
        """Return the seconds until a record may be sent, at least a hundredth, so that waits are not too many."""
        if self.is_unlimited:
            return 0.0
        return max((1.0 - self._saved) / self.per_second, 0.01)
