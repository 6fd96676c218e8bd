"""Nothing grows: an hour of steady load, and a thousand producers that are retired (`make chaos` only).

`FENCEPOST_SOAK_MINUTES` makes the load shorter or longer.
"""

import os
import time

import pytest

from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from support.footprint import Growth, sample, total
from support.long_form import IS_LONG
from support.proxy import Action, ApiKey, KafkaProxy, Request
from support.worker import Worker

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
