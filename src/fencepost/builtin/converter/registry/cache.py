"""A cache with bounds in number and time."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

V = TypeVar("V")


class Cache(Generic[V]):
    """Keeps the `size` values that were used last, each for at most `ttl_s` seconds (None: for good). Thread-safe."""

    def __init__(self, size: int, ttl_s: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._size = size
        self._ttl_s = ttl_s
        self._clock = clock
        self._lock = Lock()
        self._entries: OrderedDict[Hashable, tuple[float, V]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> V | None:
        """Return a value that is still valid, or None."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            if self._ttl_s is not None and self._clock() >= entry[0] + self._ttl_s:
                del self._entries[key]
                return None
            self._entries.move_to_end(key)
            return entry[1]

    def put(self, key: Hashable, value: V) -> None:
        with self._lock:
            self._entries[key] = (self._clock(), value)
            self._entries.move_to_end(key)
            while len(self._entries) > self._size:
                self._entries.popitem(last=False)

    def get_or(self, key: Hashable, make: Callable[[], V]) -> V:
        """Return the value, made by `make` if it is not there. What `make` raises is not kept."""
        found = self.get(key)
        if found is None:
            found = make()
            self.put(key, found)
        return found


class ProvisionalCache(Generic[V]):
    """Keeps the `size` values that were used last: final ones for good, others for `ttl_s` seconds. Thread-safe."""

    def __init__(self, size: int, ttl_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._final: Cache[V] = Cache(size)
        self._provisional: Cache[tuple[float, V]] = Cache(size)
        self._ttl_s = ttl_s
        self._clock = clock
        self._postponed_s = float("-inf")

    def get(self, key: Hashable) -> V | None:
        """Return a value that is still valid, or None."""
        found = self._final.get(key)
        if found is not None:
            return found
        until_s, last = self._provisional.get(key) or (0.0, None)
        return last if self._clock() < max(until_s, self._postponed_s) else None

    def last(self, key: Hashable) -> V | None:
        """Return a value that is not final, also one that is no longer valid; None if there is none."""
        _, last = self._provisional.get(key) or (0.0, None)
        return last

    def postpone(self, for_s: float) -> None:
        """Let all values be valid for that long: there are no newer ones now."""
        self._postponed_s = self._clock() + for_s

    def put(self, key: Hashable, value: V, *, is_final: bool) -> None:
        if is_final:
            self._final.put(key, value)
        else:
            self._provisional.put(key, (self._clock() + self._ttl_s, value))
