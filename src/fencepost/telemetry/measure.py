"""What processes measure: rates of growing totals over a sliding time, and memory, with that of a host (a JVM)."""

import os
from collections import deque
from collections.abc import Mapping
from contextlib import suppress

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


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
