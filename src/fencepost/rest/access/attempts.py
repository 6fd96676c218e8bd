"""Credentials that were right a moment ago, and bounds on how often a caller may guess a password or send a request."""

import hashlib
import hmac
import math
import os
import threading
import time
from collections.abc import Callable

from fencepost.rest.access.principal import Checked

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


_MOST = 1_000


class KnownCredentials:
    """Remembers credentials for as long as their authenticator says, under a keyed hash. On the event loop only."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._key = os.urandom(32)
        self._checked: dict[bytes, Checked] = {}  # the newest last

    def get(self, header: str) -> Checked | None:
        """Return whose credentials a header has; None if they have to be checked."""
        found = self._checked.get(self._hash(header))
        return None if found is None or found.until_s <= self._now_s() else found

    def were_right(self, header: str) -> bool:
        """Return whether they were right once, though they may have to be checked again."""
        return self._hash(header) in self._checked

    def keep(self, header: str, checked: Checked) -> None:
        """Remember them; the oldest are forgotten when there are too many."""
        key = self._hash(header)
        self._checked.pop(key, None)
        self._checked[key] = checked
        while len(self._checked) > _MOST:
            del self._checked[next(iter(self._checked))]

    def _hash(self, header: str) -> bytes:
        return hmac.digest(self._key, header.encode("utf-8", "surrogateescape"), hashlib.sha256)
