"""The JVMs of a worker that run Java plug-ins: those of its slots, and its own."""

import psutil

from support.chaos.processes import command
from support.worker import Worker


def hosts(worker: Worker, slot: int | None = None) -> list[psutil.Process]:
    """Return the JVMs below a slot, or below all of them."""
    found = []
    for pid in worker.slots().values():
        if slot in (None, pid):
            found += [one for one in psutil.Process(pid).children(recursive=True) if "java" in one.name()]
    return found


def hosts_of_connectors(worker: Worker) -> list[psutil.Process]:
    """Return the JVMs just below the worker, which run its Java connectors and validate their configs."""
    assert worker.process is not None
    return [one for one in psutil.Process(worker.process.pid).children() if "fencepost.host.Host" in command(one)]
