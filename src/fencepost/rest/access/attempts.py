"""Bounds how often somebody may do something: guess a password, or send a request."""

import math
import threading
import time
from collections.abc import Callable

_MOST_KNOWN = 10_000


class Attempts:
    """Counts by address or name: `most` at once, and one more every `refill_s`. Thread-safe.

    Those that were counted least recently are forgotten when there are too many.
    """

    def __init__(self, most: int = 20, refill_s: float = 3.0, now_s: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._refill_s = refill_s
        self._now_s = now_s
        self._lock = threading.Lock()
        self._free_at: dict[str, float] = {}  # when all attempts of an address are free again; the newest last

    def wait_s(self, address: str) -> int:
        """Return how long one has to wait before the next attempt, in whole seconds; 0: not at all."""
        used_s = self._free_at.get(address, 0.0) - self._now_s()
        return max(0, math.ceil(used_s - (self._most - 1) * self._refill_s))

    def count(self, address: str) -> None:
        """Count an attempt."""
        with self._lock:
            free_at = max(self._free_at.pop(address, 0.0), self._now_s())
            self._free_at[address] = free_at + self._refill_s
            while len(self._free_at) > _MOST_KNOWN:
                del self._free_at[next(iter(self._free_at))]
