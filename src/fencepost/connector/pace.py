"""A steady number of records per second."""

import time
from collections.abc import Callable


class Pace:
    """Says how many records may go now so that `per_second` are never exceeded; 0 or less means no limit.

    What was not used adds up for a tenth of a second only: a start, or a pause, is not followed by a burst.
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
        """Return how many records may go now, at most `limit`, and count them as gone."""
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
        """Return the seconds until a record may go; a moment longer where several go in each of many waits."""
        if self.is_unlimited:
            return 0.0
        return max((1.0 - self._saved) / self.per_second, 0.01)
