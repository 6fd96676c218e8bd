"""Java tasks leave nothing: neither when they start and stop again and again, nor after 600,000 records each way."""

import statistics
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.embedded.java import find_java
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from support.cluster import LightWorker
from support.host_processes import hosts, hosts_of_connectors
from support.java_plugins import compile_plugins
from support.long_form import IS_LONG
from support.worker import Worker

WITHIN_S = 240
TIMES, WARM_UP = 50 if IS_LONG else 5, 3
RECORDS = 600_000
MOST_GROWTH = 0.2  # if each record left a hundred bytes, a host would be half as large again
_OWN_THREADS = 2  # of a JVM, compiling for example, which come and go


@pytest.fixture
def worker(kafka: EmbeddedKafka, tmp_path: Path) -> Iterator[Worker]:
    compile_plugins(tmp_path / "plugins" / "numbers")
    settings = {"plugin.path": str(tmp_path / "plugins"), "spark.master": "local[4]", "slots.max": "1"}
    group = f"footprint-{uuid.uuid4().hex[:6]}"
    with LightWorker(kafka.bootstrap_servers, tmp_path, settings, group=group) as running:
        yield running


def source(topic: str, **more: Any) -> dict[str, str]:
    own = {"connector.class": "tests.NumberSourceConnector", "topic": topic, "tasks.max": "1"}
    return own | {key.replace("_", "."): str(value) for key, value in more.items()}


def sink(topic: str, out: Path) -> dict[str, str]:
    return {"connector.class": "tests.LinesSinkConnector", "topics": topic, "file": str(out), "tasks.max": "1"}


def create(worker: Worker, name: str, config: Mapping[str, str]) -> None:
    answer = worker.create(name, config)
    assert answer.status_code == 201, answer.text


def delete(worker: Worker, *names: str) -> None:
    for name in names:
        assert worker.rest.delete(f"/connectors/{name}").status_code == 204
    eventually(lambda: not any(worker.status(name) for name in names), within_s=WITHIN_S)


def loaders(process: psutil.Process) -> int:
    """Return how many class loaders a JVM has that have not been collected, without those that Java makes itself.

    Java makes one for a constructor that is called by reflection for the 16th time.
    """
    jcmd = find_java().path.resolve().with_name("jcmd")
    for what in ("GC.run", "VM.classloaders"):
        done = subprocess.run([str(jcmd), str(process.pid), what], capture_output=True, text=True, check=True)
    return sum("+--" in line and "reflect" not in line for line in done.stdout.splitlines())


def left(worker: Worker) -> dict[str, int]:
    """Return how many threads, descriptors, processes and class loaders worker, slot and their hosts have."""
    assert worker.process is not None
    own, (slot,) = psutil.Process(worker.process.pid), worker.slots().values()
    of_connectors = hosts_of_connectors(worker)
    found = {"hosts of the worker": len(of_connectors)}
    for role, each in {"worker": own, "slot": psutil.Process(slot), "host": hosts(worker)[0]}.items():
        found |= {
            f"threads of {role}": each.num_threads(),
            f"descriptors of {role}": each.num_fds(),
            f"processes below {role}": len(each.children(recursive=True)),
        }
    keeping = max(of_connectors, key=lambda each: -each.create_time())  # that of validation ends when it is not used
    for role, each in {"host": hosts(worker)[0], "host of connectors": keeping}.items():
        found |= {f"loaders of {role}": loaders(each), f"threads of {role}": each.num_threads()}
    return found


@pytest.mark.chaos
@pytest.mark.timeout(600 + 60 * TIMES)
def test_starts_and_stops_leave_nothing_in_worker_slot_and_hosts(
    worker: Worker, kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    keeper, topic = f"{topic_name}-keeper", f"{topic_name}-numbers"
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(topic, partitions=1, replication=1)

    def once(number: int) -> None:
        """Start a source and a sink, restart their tasks, and delete them once these have moved records."""
        names, out = (f"{topic}-source-{number}", f"{topic}-sink-{number}"), tmp_path / f"out-{number}"
        create(worker, names[0], source(topic, count=20))
        create(worker, names[1], sink(topic, out))
        eventually(lambda: out.exists() and worker.task_states(names[0]) == ["RUNNING"], within_s=WITHIN_S)
        for name in names:
            assert worker.rest.post(f"/connectors/{name}/tasks/0/restart").status_code == 204
        create_times = {host.create_time() for host in hosts(worker)}
        delete(worker, *names)
        assert {host.create_time() for host in hosts(worker)} == create_times  # nobody had to kill it

    with capfd.disabled():
        create(worker, keeper, source(keeper, count=10**9, pause_ms=100))
        worker.wait_for_tasks(keeper, "RUNNING", within_s=WITHIN_S)
        most: dict[str, int] = {}
        for number in range(WARM_UP):
            once(number)
            most = {what: max(count, most.get(what, 0)) for what, count in left(worker).items()}
        for number in range(WARM_UP, WARM_UP + TIMES):
            once(number)
        print(f"\nafter {WARM_UP}: {most}\nafter {WARM_UP + TIMES}: {left(worker)}", flush=True)
        eventually(lambda: _is_within(left(worker), most), within_s=60, every_s=2)


def _is_within(found: Mapping[str, int], most: Mapping[str, int]) -> bool:
    own = {what: _OWN_THREADS for what in most if what.startswith("threads of host")}
    more = {what: (most[what], count) for what, count in found.items() if count > most[what] + own.get(what, 0)}
    assert not more, f"more than before: {more}"
    return True


class _Watched:
    """The memory of a slot and its host while records pass."""

    def __init__(self, worker: Worker) -> None:
        (slot,) = worker.slots().values()
        self._processes = {"slot": psutil.Process(slot), "host": hosts(worker)[0]}
        self._samples: list[tuple[int, dict[str, float]]] = []

    def has_passed(self, records: int) -> bool:
        """Take a sample after so many records; say whether these are all."""
        memory = {role: each.memory_info().rss / (1 << 20) for role, each in self._processes.items()}
        self._samples.append((records, memory))
        return records >= RECORDS

    def typical(self, role: str, low: float, high: float) -> float:
        """Return the median in MiB between two parts of the records."""
        return statistics.median(
            memory[role] for records, memory in self._samples if low * RECORDS <= records <= high * RECORDS
        )

    def check(self, what: str) -> None:
        for role in self._processes:
            first, last = self.typical(role, 0.2, 0.5), self.typical(role, 0.8, 1)
            print(f"{what}, {role}: {first:.0f} MiB, then {last:.0f} MiB, {len(self._samples)} samples", flush=True)
            assert last < first * (1 + MOST_GROWTH), f"{what}, {role}: {first} MiB, then {last} MiB"


@pytest.mark.chaos
@pytest.mark.skipif(not IS_LONG, reason="only in `make chaos`")
@pytest.mark.timeout(1800)
def test_memory_stays_flat_over_many_records_each_way(
    worker: Worker, kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    with capfd.disabled(), CommittedReader(kafka.bootstrap_servers, [topic_name]) as reader:
        create(worker, "source", source(topic_name, count=RECORDS, batch=500, pause_ms=30))
        worker.wait_for_tasks("source", "RUNNING", within_s=WITHIN_S)
        eventually(lambda: reader.seen_of(topic_name), within_s=WITHIN_S)
        watched, seen = _Watched(worker), 0

        def have_come() -> bool:
            nonlocal seen
            seen += len(reader.seen_of(topic_name, seen))
            return watched.has_passed(seen)

        print()
        eventually(have_come, within_s=900, every_s=0.25)
        watched.check("source")
        assert [one.value for one in reader.seen_of(topic_name)] == [f"0:{n}".encode() for n in range(1, RECORDS + 1)]
    with capfd.disabled():
        create(worker, "sink", sink(topic_name, out) | {"consumer.override.max.poll.records": "500"})
        worker.wait_for_tasks("sink", "RUNNING", within_s=WITHIN_S)
        watched = _Watched(worker)
        eventually(
            lambda: watched.has_passed(worker.sink_offsets("sink").get((topic_name, 0), 0)), within_s=900, every_s=0.1
        )
        watched.check("sink")
        assert len(set(out.read_text().splitlines())) == RECORDS
