"""Something that is done every so often, whatever it takes and whoever wakes its thread in between."""

import time
from collections.abc import Callable


class Beat:
    """Says when it is time. The first time is at once; what was missed is not made up for."""

    def __init__(self, interval_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._due_s = clock()

    def left_s(self) -> float:
        """Return how long it is until it is time; 0: it is."""
        return max(0.0, self._due_s - self._clock())

    def take(self) -> bool:
        """Say whether it is time; if so, the next time is an interval from now on."""
        if self.left_s():
            return False
        self._due_s = self._clock() + self._interval_s
        return True
