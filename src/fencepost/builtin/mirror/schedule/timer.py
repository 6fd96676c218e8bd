"""A timer for work that is due at an interval."""

import time
from collections.abc import Callable


class IntervalTimer:
    """Says when the next time is due. The first is due at once; missed times are not made up for."""

    def __init__(self, interval_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._due_s = clock()

    def left_s(self) -> float:
        """Return the seconds until the next time; 0 if it is due."""
        return max(0.0, self._due_s - self._clock())

    def take(self) -> bool:
        """Say whether it is due; if so, the next time is an interval from now."""
        if self.left_s():
            return False
        self._due_s = self._clock() + self._interval_s
        return True
