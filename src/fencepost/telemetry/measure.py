"""What processes measure, and what they hold: rates of growing totals over a sliding time, and memory.

The memory includes that of a host (a JVM). Free memory of a Python process that runs tasks goes back to the system: a
batch of 20,000 records of 100 bytes consists of pieces of megabytes, in several threads. Arrow's own allocator keeps
what each thread has freed, four times the peak use, and glibc also has a heap for each thread: a slot with four such
tasks held 250 MB, busy or idle. With one heap for all threads, whose free pages are returned now and then, it holds
140 MB when busy and 105 MB when idle, for the same processor time.
"""

import ctypes
import gc
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

_POOL = "ARROW_DEFAULT_MEMORY_POOL"
# From malloc.h: M_ARENA_MAX, M_TRIM_THRESHOLD and M_MMAP_THRESHOLD. Freed memory stays until `give_back`.
_OPTIONS = {-8: 1, -1: 1 << 30, -3: 32 << 20}


class Hosts:
    """The ids of this process's hosts. Any thread."""

    def __init__(self) -> None:
        self._pids: set[int] = set()

    def started(self, pid: int) -> None:
        """Count a host's memory from now on, until it ends."""
        self._pids.add(pid)

    def resident_bytes(self) -> int | None:
        """Return the memory of all hosts that run; None if none does."""
        found = {pid: resident_bytes(pid) for pid in list(self._pids)}
        for pid in [pid for pid, size in found.items() if not size]:
            self._pids.discard(pid)
        return sum(size for size in found.values() if size) or None


hosts = Hosts()
"""The hosts of this process."""


def resident_bytes(pid: int | None = None) -> int | None:
    """Return the resident memory of a process, by default this one; None where the system does not say (no Linux)."""
    with suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{'self' if pid is None else pid}/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * _PAGE_BYTES
    return None


class WindowedRates:
    """Rates a second over the last `samples` windows, as `org.apache.kafka.common.metrics.stats.Rate` defines them.

    A window begins with the first totals after the end of the one before. Until all windows but one have been filled,
    the time that is divided by is counted as if they had been: a rate begins low rather than with a peak. Not
    thread-safe.
    """

    def __init__(self, window_s: float = 30.0, samples: int = 2) -> None:
        self._window_s = max(window_s, 0.001)
        self._samples = samples
        self._windows: deque[tuple[float, Mapping[str, float]]] = deque()  # begin, and the totals before it
        self._last: Mapping[str, float] = {}

    def add(self, totals: Mapping[str, float], now_s: float) -> None:
        """Take the totals of now; what is missing in the first ones was 0 before."""
        if not self._windows or now_s - self._windows[-1][0] >= self._window_s:
            self._windows.append((now_s, self._last))
            if len(self._windows) > self._samples:
                self._windows.popleft()
        self._last = dict(totals)

    def per_second(self, now_s: float) -> dict[str, float]:
        """Return the rates of the totals by name; 0 if they have not been renewed for so long."""
        while self._windows and now_s - self._windows[0][0] >= self._window_s * self._samples:
            self._windows.popleft()
        if not self._windows:
            return dict.fromkeys(self._last, 0.0)
        begun_s, before = self._windows[0]
        full = int((now_s - begun_s) / self._window_s)
        elapsed_s = now_s - begun_s + max(self._samples - 1 - full, 0) * self._window_s
        return {name: (total - before.get(name, 0.0)) / max(elapsed_s, 0.001) for name, total in self._last.items()}


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
