"""A cluster whose workers can be cut off: from the broker by a proxy, from their peers by a gate."""

import os
import signal
from collections import Counter, defaultdict
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.read.log import LogReader, LogRecord
from fencepost.storage.config_topic import ConfigTopic
from fencepost.storage.snapshot import ClusterSnapshot
from support.chaos.gate import Gate
from support.chaos.whole_writes import torn_writes
from support.cluster import Cluster, identity
from support.proxy import KafkaProxy
from support.worker import Worker

_READ_S = 30.0

IMPATIENT = {
    "session_timeout_ms": "3000",
    "heartbeat_interval_ms": "500",
    "slot_lease_ms": "2000",
    "task_shutdown_graceful_timeout_ms": "2000",
    "offset_flush_interval_ms": "2000",  # at the end the group stands behind the last markers, too
}
"""Settings with which a lost worker is noticed soon."""


@dataclass(frozen=True)
class Station:
    """A worker with the proxy through which it sees the broker, and the gate through which its peers see it."""

    worker: Worker
    broker: KafkaProxy
    gate: Gate


class GatedCluster:
    """Workers of one group, each in a `Station`. Tests reach a worker's REST past its gate. A context manager."""

    def __init__(self, bootstrap: str, directory: Path, group: str, count: int, **settings: str) -> None:
        self.group = group
        self._conf = {"bootstrap.servers": bootstrap}
        self._stack = ExitStack()
        self.cluster = Cluster(bootstrap, directory, group, 0, **settings)
        self.session_s = int(self.cluster.settings["session.timeout.ms"]) / 1000
        self.stations = [self._station(bootstrap) for _ in range(count)]
        self.config = ConfigTopic(self._conf, f"{group}-configs")

    def _station(self, bootstrap: str) -> Station:
        proxy = self._stack.enter_context(KafkaProxy(bootstrap))
        worker = self.cluster.made(proxy.bootstrap_servers)
        gate = self._stack.enter_context(Gate(worker.port))
        worker.advertised_port = gate.port
        worker.properties |= {"rest.advertised.host.name": "127.0.0.1", "rest.advertised.port": str(gate.port)}
        self.cluster.workers.append(worker)
        return Station(worker, proxy, gate)

    def __enter__(self) -> "GatedCluster":
        with self._stack:
            self._stack.callback(self.cluster.stop)
            self.cluster.start()
            self._stack.callback(self.config.stop)
            self.config.start(_READ_S)
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def workers(self) -> list[Worker]:
        return self.cluster.workers

    def station(self, worker: Worker) -> Station:
        return next(station for station in self.stations if station.worker is worker)

    def snapshot(self) -> ClusterSnapshot:
        """Return what the config topic says now."""
        return self.config.read_to_end(_READ_S)

    def log_text(self) -> str:
        return "".join(worker.log_text() for worker in self.workers)

    def print_stacks(self) -> None:
        """Have every process write the stacks of its threads to its worker's log, to see where it hangs."""
        for worker in self.workers:
            if worker.process is not None:
                for pid in (worker.process.pid, *worker.slots().values()):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGUSR1)

    def held_back(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Return where the internal topics end for who reads committed, and for others, as far as that differs."""
        admin = Admin(self._conf)
        names = [f"{self.group}-{name}" for name in ("configs", "offsets")]
        parts = [(name, n) for name in names for n in range(admin.topics.partitions(name) or 0)]
        ends = [admin.offsets.ends(parts, read_committed=is_committed) for is_committed in (True, False)]
        return {part: (ends[0][part], ends[1][part]) for part in parts if ends[0][part] != ends[1][part]}

    def torn_writes(self) -> list[str]:
        """Return what is not whole in the config topic, over all its history."""
        return torn_writes((record.key, record.value) for record in self._read("configs"))

    def failures(self) -> list[str]:
        """Return every FAILED that was ever said, with its trace: the status topic forgets nothing so soon."""
        said = [(record.key, orjson.loads(record.value)) for record in self._read("status") if record.value]
        return [f"{key!r}: {each.get('trace', '')[-600:]}" for key, each in said if each.get("state") == "FAILED"]

    def said_of_what_is_not_running(self) -> list[str]:
        """Return all that was said, in order, of tasks of which something else than RUNNING was said last."""
        said: dict[bytes, list[str]] = defaultdict(list)
        for record in self._read("status"):
            if record.key.startswith(b"status-task-") and record.value:
                each = orjson.loads(record.value)
                said[record.key].append("{state} in {generation} by {worker_id}".format_map(each))
        return [f"{key!r}: {lines[-6:]}" for key, lines in said.items() if not lines[-1].startswith("RUNNING")]

    def _read(self, topic: str) -> list[LogRecord]:
        found: list[LogRecord] = []
        reader = LogReader(self._conf, f"{self.group}-{topic}")
        try:
            reader.read_to_end(_READ_S, found.append)
        finally:
            reader.close()
        return found


def ensure_whole(worker: Worker, tasks: dict[str, int], among: list[Worker], *, is_even: bool) -> None:
    """Raise AssertionError unless a worker says that all runs, just on these workers, and evenly if that is asked."""
    ids = {identity(each) for each in among}
    counts: Counter[str] = Counter(dict.fromkeys(ids, 0))
    for name, count in tasks.items():
        status: dict[str, Any] = worker.status(name)
        parts = [status.get("connector", {}), *status.get("tasks", [])]
        found = [(part.get("id"), part.get("state"), part.get("worker_id")) for part in parts]
        is_right = [(n, "RUNNING") for n in (None, *range(count))] == [each[:2] for each in found]
        assert is_right, f"{identity(worker)} says of {name}, that has {count} tasks: {found}"
        assert {each[2] for each in found} <= ids, f"{identity(worker)} says of {name}: {found}, not all on {ids}"
        counts.update(str(each[2]) for each in found[1:])
    assert not is_even or max(counts.values()) - min(counts.values()) <= 1, f"tasks of workers: {counts}"
