"""The JVMs of a worker's slots, which run its Java tasks."""

import contextlib
from collections.abc import Sequence

import psutil

from support.worker import Worker


def hosts(worker: Worker, slot: int | None = None) -> list[psutil.Process]:
    """Return the JVMs below a slot, or below all of them."""
    found = []
    for pid in worker.slots().values():
        if slot in (None, pid):
            found += [one for one in psutil.Process(pid).children(recursive=True) if "java" in one.name()]
    return found


def living(processes: Sequence[psutil.Process]) -> list[str]:
    """Return the states of those processes that live."""
    found = []
    for each in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if each.is_running() and each.status() != psutil.STATUS_ZOMBIE:
                found.append(str(each))
    return found
