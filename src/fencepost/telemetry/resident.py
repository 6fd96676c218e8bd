"""The memory of this process, and of the host (a JVM) that it has started."""

import os
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
