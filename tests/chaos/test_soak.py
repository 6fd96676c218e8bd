"""Nothing grows: an hour of steady load, and a thousand producers that are retired (`make chaos` only).

`FENCEPOST_SOAK_MINUTES` makes the load shorter or longer.
"""

import contextlib
import os
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import psutil
import pytest

from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from support.long_form import IS_LONG
from support.proxy import Action, ApiKey, KafkaProxy, Request
from support.worker import Worker

_MIB = 1 << 20


@dataclass(frozen=True)
class Footprint:
    """The memory and processor time of one process, or of several."""

    resident_mib: float = 0.0
    descriptors: int = 0
    threads: int = 0

    def __add__(self, other: "Footprint") -> "Footprint":
        return Footprint(
            self.resident_mib + other.resident_mib,
            self.descriptors + other.descriptors,
            self.threads + other.threads,
        )

    def __str__(self) -> str:
        return f"{self.resident_mib:,.1f} MiB, {self.descriptors} descriptors, {self.threads} threads"


Sample = Mapping[str, Footprint]


def sample(pid: int) -> Sample:
    """Return the footprints of a process and of all below it, by what they are."""
    found: dict[str, Footprint] = defaultdict(Footprint)
    worker = psutil.Process(pid)
    for process in [worker, *worker.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            role = "worker" if process.pid == pid else "JVM" if process.name() == "java" else "Python of Spark"
            with process.oneshot():
                found[role] += Footprint(process.memory_info().rss / _MIB, process.num_fds(), process.num_threads())
    return dict(found)


def typical(samples: Sequence[Sample]) -> Sample:
    """Return by role the median of the memory, and the least of the rest: what comes and goes is no growth."""
    roles = {role for each in samples for role in each}
    return {role: _typical([each.get(role, Footprint()) for each in samples]) for role in sorted(roles)}


def total(sample: Sample) -> Footprint:
    return sum(sample.values(), Footprint())


def _typical(found: Sequence[Footprint]) -> Footprint:
    return Footprint(
        statistics.median(each.resident_mib for each in found),
        min(each.descriptors for each in found),
        min(each.threads for each in found),
    )


@dataclass
class Growth:
    """Samples taken every `every_s`, and what the last fifth of them says against the first, warm-up left out."""

    every_s: float
    warm_up: float = 1 / 6  # part of the samples
    samples: list[Sample] = field(default_factory=list)

    def watch(self, pid: int, duration_s: float) -> None:
        """Take samples for so long, and print some of them."""
        until_s, told_s = time.monotonic() + duration_s, 0.0
        rest = threading.Event()
        while (now_s := time.monotonic()) < until_s:
            self.samples.append(sample(pid))
            if now_s - told_s >= max(60.0, duration_s / 30):
                told_s = now_s
                print(f"{len(self.samples):5} {_shown(self.samples[-1])}", flush=True)
            rest.wait(self.every_s)

    @property
    def ends(self) -> tuple[Sample, Sample]:
        """Return typical values of the first and of the last fifth after the warm-up."""
        warm = self.samples[int(len(self.samples) * self.warm_up) :]
        count = max(1, len(warm) // 5)
        return typical(warm[:count]), typical(warm[-count:])

    @property
    def of_memory(self) -> float:
        """By what part resident memory has grown."""
        first, last = (total(each).resident_mib for each in self.ends)
        return last / first - 1

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{len(self.samples)} samples, one in {self.every_s:g} s; resident memory {self.of_memory:+.1%}"
        for name, each in zip(("first", "last"), self.ends, strict=True):
            yield f"  {name} fifth after the warm-up: {_shown(each)}"


def _shown(sample: Sample) -> str:
    parts = "; ".join(f"{role} {footprint}" for role, footprint in sorted(sample.items()))
    return f"{total(sample)} ({parts})"


pytestmark = [
    pytest.mark.chaos,
    pytest.mark.skipif(not IS_LONG, reason="only in `make chaos`"),
]

MINUTES = float(os.environ.get("FENCEPOST_SOAK_MINUTES", "60"))
RETIREMENTS = int(os.environ.get("FENCEPOST_RETIREMENTS", "1000"))
MOST_GROWTH = 0.05
SMALL = {"retention.bytes": str(16 << 20), "segment.bytes": str(4 << 20)}
ROWS_PER_S = 2_000
TRANSACTIONS_PER_S = 20
CALM_S = 0.3
_SECOND_LANE = b"#1"


def rows(topic: str, per_s: float, tasks: int = 1, **settings: str) -> dict[str, str]:
    return {
        "connector.class": "Datagen",
        "topic": topic,
        "rows.per.second": str(per_s),
        "tasks.max": str(tasks),
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        **{key.replace("_", "."): value for key, value in settings.items()},
    }


def judge_growth(growth: Growth) -> None:
    """Each kind of process by itself: a leak of the smallest would be lost in the sum."""
    first, last = growth.ends
    for role, before in first.items():
        assert last[role].resident_mib < before.resident_mib * (1 + MOST_GROWTH), f"memory of {role}: {growth}"
        assert last[role].descriptors <= before.descriptors, f"descriptors of {role}: {growth}"
        assert last[role].threads <= before.threads, f"threads of {role}: {growth}"


def rows_done(worker: Worker, name: str) -> int:
    """Return up to which row the connector's first task is committed."""
    offsets = worker.rest.get(f"/connectors/{name}/offsets").json()["offsets"]
    return max((entry["offset"]["row"] for entry in offsets), default=0)


@pytest.mark.timeout(MINUTES * 60 + 600)
def test_memory_descriptors_and_threads_stay_flat_under_steady_load(kafka, tmp_path, capfd):
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    interval = {"transaction_boundary": "interval", "transaction_boundary_interval_ms": "500"}
    loads = {
        "many-rows": rows("soak-many-rows", ROWS_PER_S, tasks=2, **interval),
        "many-transactions": rows("soak-many-transactions", TRANSACTIONS_PER_S),
    }
    with capfd.disabled(), Worker(kafka.bootstrap_servers, tmp_path, group="soak") as worker:
        for name, config in loads.items():
            admin.topics.create(config["topic"], partitions=1, replication=1, configs=SMALL)
            assert worker.create(name, config).status_code == 201
        worker.wait_for_tasks("many-rows", "RUNNING", "RUNNING")
        worker.wait_for_tasks("many-transactions", "RUNNING")
        growth = Growth(every_s=min(10.0, MINUTES))
        print(f"\n{MINUTES:g} minutes, {ROWS_PER_S} rows/s")
        growth.watch(worker.process.pid, MINUTES * 60)
        print(growth)
        done = {name: rows_done(worker, name) for name in loads}
        print(f"rows committed: {done}", flush=True)
        worker.wait_for_tasks("many-rows", "RUNNING", "RUNNING")
        worker.wait_for_tasks("many-transactions", "RUNNING")
    assert done["many-rows"] > 0.9 * ROWS_PER_S * MINUTES * 60
    judge_growth(growth)


class Inits:
    """Counts the starts of producers, as the broker is asked to initialise them."""

    def __init__(self, proxy: KafkaProxy) -> None:
        self.count = 0  # of tasks' first producers; each comes with its second, which is not counted
        self.last_s = 0.0
        proxy.on(ApiKey.INIT_PRODUCER_ID, Action.PASS, matches=self._count)

    def _count(self, request: Request) -> bool:
        self.count += _SECOND_LANE not in request.frame
        self.last_s = time.monotonic()
        return False

    @property
    def is_calm(self) -> bool:
        """Whether no producer has been made for a while."""
        return time.monotonic() - self.last_s > CALM_S


def retire(worker: Worker, inits: Inits, proxy: KafkaProxy) -> Growth:
    """Reset all connections, wait for new producers, and again; a sample is taken while everything is calm."""
    growth = Growth(every_s=0.0)
    while inits.count < RETIREMENTS:
        before = inits.count
        proxy.reset_all()
        eventually(lambda before=before: inits.count > before and inits.is_calm, within_s=60)
        growth.samples.append(sample(worker.process.pid))
        if len(growth.samples) % 20 == 1:
            print(f"{inits.count:5} {total(growth.samples[-1])}", flush=True)
    return growth


@pytest.mark.timeout(1800)
def test_memory_descriptors_and_threads_stay_flat_when_producers_are_retired(kafka, tmp_path, capfd):
    """Every connection of every producer is reset again and again: each reset is a strike (E5)."""
    tasks = 4
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    admin.topics.create("retired", partitions=1, replication=1, configs=SMALL)
    with capfd.disabled(), KafkaProxy(kafka.bootstrap_servers) as proxy:
        settings = {"producer.bootstrap.servers": proxy.bootstrap_servers}
        with Worker(kafka.bootstrap_servers, tmp_path, settings, group="retired") as worker:
            calm = {"transaction_boundary": "interval", "transaction_boundary_interval_ms": "500"}  # one lane, always
            assert worker.create("retired", rows("retired", 100.0, tasks, **calm)).status_code == 201
            worker.wait_for_tasks("retired", *["RUNNING"] * tasks)
            inits = Inits(proxy)
            growth = retire(worker, inits, proxy)
            print(f"\n{inits.count} producers retired\n{growth}", flush=True)
            worker.wait_for_tasks("retired", *["RUNNING"] * tasks)
    judge_growth(growth)
