"""Python's garbage collector in a slot: run by the clock instead of by the number of new objects.

Python looks for cycles whenever there are 700 objects more than at its last look. A batch makes three objects for each
record, which are in no cycle and are freed by reference counting. For a stream with polls of 20,000 records of 100
bytes, looking for cycles took a quarter of the processor time; with polls of 500, a hundredth.

Higher thresholds alone are not enough. Python counts allocations minus deallocations, so the first threshold may not be
reached for days, and the third, which old objects wait for, never. A cycle of few objects may hold a client with its
threads and connections, or megabytes of bytes, which Python does not count. Therefore:

- objects that exist when the slot begins, mostly imported modules, are not looked at again;
- Python still collects by itself after a net gain of 200,000 objects, which bounds the memory of fast-growing cycles;
- every ten seconds all remaining objects of any age are collected, and free memory goes back to the system.
"""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fencepost.task.slot.memory import give_back

_YOUNG, _MIDDLE, _OLD = 200_000, 50, 1_000


class Garbage:
    """Collects cycles from time to time, and gives free memory back. Used by one thread."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, every_s: float = 10.0, largest_share: float = 0.005
    ) -> None:
        """`largest_share` of the time is spent collecting at most."""
        self._clock = clock
        self._every_s, self._largest_share = every_s, largest_share
        self._due_s = clock() + every_s

    def collect_if_due(self) -> None:
        """Collect if that is due: less often if many objects are alive, so that it takes little time."""
        begun_s = self._clock()
        if begun_s < self._due_s:
            return
        gc.collect()
        give_back()
        ended_s = self._clock()
        self._due_s = ended_s + max(self._every_s, (ended_s - begun_s) / self._largest_share)


@contextmanager
def lasting_imports() -> Iterator[None]:
    """Look for no cycles while the block imports modules, and never among what these define, as it stays."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def rare_collections() -> Iterator[None]:
    """Exclude imported objects from collection, and let Python collect by itself only after a large net gain of
    objects.

    The caller uses `Garbage` to collect the rest. On exit all settings are restored: Spark reuses its processes.
    """
    before = gc.get_threshold()
    gc.collect()  # what is frozen is never collected
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
