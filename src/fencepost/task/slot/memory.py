"""The memory of a Python process that runs tasks: free memory goes back to the system.

A batch of 20,000 records of 100 bytes consists of pieces of megabytes, in several threads. Arrow's own allocator keeps
what each thread has freed, four times the peak use, and glibc also has a heap for each thread: a slot with four such
tasks held 250 MB, busy or idle. With one heap for all threads, whose free pages are returned now and then, it holds
140 MB when busy and 105 MB when idle, for the same processor time.
"""

import ctypes
import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_POOL = "ARROW_DEFAULT_MEMORY_POOL"
# From malloc.h: M_ARENA_MAX, M_TRIM_THRESHOLD and M_MMAP_THRESHOLD. Freed memory stays until `give_back`.
_OPTIONS = {-8: 1, -1: 1 << 30, -3: 32 << 20}


def share_a_heap() -> None:
    """Let this process, and those forked from it, take all memory from one heap, if its C library can (glibc).

    Call it before there are threads, and before Arrow is imported. A pool named in the environment is kept.
    """
    if set_option := getattr(_c_library(), "mallopt", None):
        os.environ.setdefault(_POOL, "system")
        for option, value in _OPTIONS.items():
            set_option(option, value)


def give_back() -> None:
    """Return the C library's unused pages to the system (glibc)."""
    if trim := getattr(_c_library(), "malloc_trim", None):
        trim(0)


def _c_library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(None)
    except (OSError, TypeError):
        return None


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
