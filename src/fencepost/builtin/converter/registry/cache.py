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
        self._entries: OrderedDict[Hashable, tuple[float | None, V]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> V | None:
        """Return a value that is still valid, or None."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            if entry[0] is not None and self._clock() >= entry[0]:
                del self._entries[key]
                return None
            self._entries.move_to_end(key)
            return entry[1]

    def put(self, key: Hashable, value: V, ttl_s: float | None = None) -> None:
        """Keep a value, for another time than others if `ttl_s` is given."""
        ttl_s = self._ttl_s if ttl_s is None else ttl_s
        with self._lock:
            self._entries[key] = (None if ttl_s is None else self._clock() + ttl_s, value)
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
