"""Several workers of one group on one broker, each a process as a user would run it."""

import os
import signal
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import httpx
import psutil

from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from support import light_worker
from support.forked import Forked
from support.long_form import IS_LONG
from support.worker import Worker

ZOMBIE_SETTINGS = {
    "spark.master": "local[64,1]",
    "slot.lease.ms": "2000",
    "offset.flush.interval.ms": "500",
    "task.shutdown.graceful.timeout.ms": "2000",
    "spark.python.task.killTimeout": "600s",
}
"""Of a worker that soon gives up a slot that stands still. It is a zombie then, which Spark would kill: it lives on."""
_SETTINGS = {
    "session.timeout.ms": "8000",
    "heartbeat.interval.ms": "500",
    "slot.lease.ms": "8000",
    "task.shutdown.graceful.timeout.ms": "2000",
    "spark.master": "local[4]",
    "slots.max": "1",
}


class LightWorker(Worker):
    """A worker whose slots are child processes, without Spark."""

    def _properties_of_spark(self) -> Mapping[str, str]:
        return {}

    def launch(self) -> None:
        path = self.begin_log()
        tests = {"PYTHONPATH": str(Path(__file__).parents[1])}
        self.process = Forked(light_worker.main, [str(path)], self.log, tests)


WorkerOfRun: type[Worker] = Worker if IS_LONG else LightWorker
"""In `make chaos` with Spark below it. Slots of Spark's that die or stand still are for tests/chaos/test_matrix.py."""


class Cluster:
    """Workers that share a group. `workers` are in the order of their making, whether they run or not.

    A context manager: none of them runs afterwards.
    """

    def __init__(
        self,
        bootstrap: str,
        directory: Path,
        group: str,
        count: int,
        *,
        kind: type[Worker] = LightWorker,
        **settings: str,
    ) -> None:
        self._kind = kind
        self.bootstrap = bootstrap
        self.group = group
        self.directory = directory
        self.settings: Mapping[str, str] = {**_SETTINGS, **{k.replace("_", "."): v for k, v in settings.items()}}
        self.workers = [self.made() for _ in range(count)]
        self._admin = Admin({"bootstrap.servers": bootstrap})

    def made(self, bootstrap: str | None = None) -> Worker:
        """Return a further worker, not started; it may see the broker at another address."""
        return self._kind(bootstrap or self.bootstrap, self.directory, self.settings, group=self.group)

    # life

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start all that do not run, at once, and wait until they are healthy and can run tasks."""
        idle = [worker for worker in self.workers if worker.process is None]
        with ThreadPoolExecutor(max(1, len(idle))) as pool:
            list(pool.map(ready, idle))

    def stop(self) -> None:
        for worker in self.workers:
            if worker.process is not None:
                resume(worker)
                worker.kill()

    # what there is

    def leader(self) -> Worker | None:
        """Return the worker that leads, as the group describes it; None while nobody does."""
        members = self._admin.groups.describe(self.group).members
        urls = {m.client_id for m in members if m.topic_partitions}
        return next((w for w in self.workers if url(w) in urls), None)

    def await_leader(self, *but: Worker, within_s: float = 120) -> Worker:
        """Wait until one of the running workers, none of `but`, leads."""

        def found() -> Worker | None:
            leads = self.leader()
            return leads if leads is not None and leads not in but and leads.process is not None else None

        leader = eventually(found, within_s=within_s)
        assert leader is not None
        return leader

    def followers(self) -> list[Worker]:
        leads = self.await_leader()
        return [w for w in self.workers if w is not leads and w.process is not None]

    def owners(self, name: str, via: Worker) -> dict[int, str]:
        """Return who runs the tasks of a connector: `host:port` by number, of those that are said to run."""
        tasks = via.status(name).get("tasks", [])
        return {task["id"]: task["worker_id"] for task in tasks if task["state"] == "RUNNING"}

    def await_owners(
        self, name: str, tasks: int, among: Iterable[Worker], via: Worker, within_s: float = 240, *, even: bool = True
    ) -> dict[int, str]:
        """Wait until that many tasks run, spread evenly (unless not `even`) over just these workers."""
        ids = sorted(identity(worker) for worker in among)
        low, high = tasks // len(ids), -(-tasks // len(ids))

        def spread() -> dict[int, str] | None:
            owners = self.owners(name, via)
            loads = [list(owners.values()).count(each) for each in ids]
            if len(owners) == tasks == sum(loads) and (not even or (min(loads) >= low and max(loads) <= high)):
                return owners
            raise AssertionError(f"{via.status(name).get('tasks')} among {ids}")

        owners = eventually(spread, within_s=within_s)
        assert owners is not None
        return owners


def ready(worker: Worker) -> None:
    """Start a worker and wait until it is healthy and can run tasks."""
    worker.launch()
    eventually(lambda: is_ready(worker) or _has_ended(worker), within_s=240)
    assert not _has_ended(worker), worker.log_text()[-2000:]
    eventually(worker.slots, within_s=240)


def is_ready(worker: Worker) -> bool:
    try:
        return worker.rest.get("/health").status_code == 200
    except httpx.TransportError:
        return False


def _has_ended(worker: Worker) -> bool:
    return worker.process is None or worker.process.poll() is not None


def url(worker: Worker) -> str:
    return f"http://{identity(worker)}/"


def identity(worker: Worker) -> str:
    """Return how statuses name a worker."""
    return f"127.0.0.1:{worker.advertised_port}"


def pause(worker: Worker) -> None:
    """SIGSTOP the worker and all below it, as a machine that stalls."""
    _signal(worker, signal.SIGSTOP)


def resume(worker: Worker) -> None:
    _signal(worker, signal.SIGCONT)


def _signal(worker: Worker, number: signal.Signals) -> None:
    assert worker.process is not None
    pids = [worker.process.pid, *(child.pid for child in psutil.Process(worker.process.pid).children(recursive=True))]
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def timed(act: Any) -> float:
    """Return how long it took, in seconds."""
    began = time.monotonic()
    act()
    return time.monotonic() - began
