"""Bounds how often somebody may do something: guess a password, or send a request."""

import hashlib
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


class WrongPasswords:
    """Counts wrong passwords of a name from an address, and more of them from an address, for whatever names."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._of_names = Attempts(now_s=now_s)
        self._of_addresses = Attempts(most=60, refill_s=0.25, now_s=now_s)

    def wait_s(self, address: str, name: str, *, were_right: bool) -> int:
        """Return how long credentials have to wait; only those that `were_right` once do not wait for other names."""
        of_address = 0 if were_right else self._of_addresses.wait_s(address)
        return max(of_address, self._of_names.wait_s(_guess(address, name)))

    def count(self, address: str, name: str) -> None:
        """Count a wrong password."""
        self._of_names.count(_guess(address, name))
        self._of_addresses.count(address)


def _guess(address: str, name: str) -> str:
    return f"{address} {hashlib.sha256(name.encode()).hexdigest()}"
