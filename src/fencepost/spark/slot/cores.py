"""Counts how many slots and DataFrame jobs fit into the cores that Spark offers. Pure; no Spark here."""

import threading
from collections import Counter
from enum import Enum


class CoreUse(Enum):
    """The use of a core."""

    SLOT = "slot"
    SPLIT = "DataFrame split"


class NoCoreError(RuntimeError):
    """No core is free now; the text says what holds them and what to set."""


class CoreLedger:
    """Keeps slots and DataFrame jobs together within `total` cores, so that neither waits for the other for ever.

    A slot holds its core for its lifetime; DataFrame jobs come and go, and take one core each. Slots leave `reserved`
    cores free, unless there is only one, so that splits always make progress. `take` never waits: it refuses what does
    not fit, and its reason becomes the reason of UNASSIGNED. Thread-safe.
    """

    def __init__(self, total: int, *, reserved: int = 0) -> None:
        self.total = total
        self._reserved = reserved
        self._taken: Counter[CoreUse] = Counter()
        self._lock = threading.Lock()

    @property
    def free(self) -> int:
        return self.total - self._taken.total()

    def taken(self, use: CoreUse) -> int:
        return self._taken[use]

    def take(self, n: int, use: CoreUse) -> None:
        """Take `n` cores. Raises NoCoreError, and takes none, if they are not free."""
        with self._lock:
            splits = self._taken[CoreUse.SPLIT]
            if use is CoreUse.SLOT:
                splits = max(splits, min(self._reserved, self.total - 1))
            if self._taken[CoreUse.SLOT] + splits + n > self.total:
                raise NoCoreError(self._refusal(f"{n} more for a {use.value}"))
            self._taken[use] += n

    def refusal_of_splits(self) -> str | None:
        """Return why no split can ever run in addition to the present slots; None if one can."""
        with self._lock:
            return self._refusal("a DataFrame split") if self._taken[CoreUse.SLOT] >= self.total else None

    def release(self, n: int, use: CoreUse) -> None:
        """Release cores that `take` took."""
        with self._lock:
            if n > self._taken[use]:
                raise ValueError(f"{n} cores released that no {use.value} holds")
            self._taken[use] -= n

    def set_total(self, total: int) -> None:
        """Set the number of cores after a cluster grew or shrank; cores in use stay in use."""
        with self._lock:
            self.total = total

    def _refusal(self, wanted: str) -> str:
        slots, splits = self._taken[CoreUse.SLOT], self._taken[CoreUse.SPLIT]
        return (
            f"Spark offers {self.total} cores ({slots} held by slots, {splits} by DataFrame splits, "
            f"{self._reserved} kept for splits) and has none for {wanted}: "
            "raise the number in spark.master=local[N], or add executors"
        )
