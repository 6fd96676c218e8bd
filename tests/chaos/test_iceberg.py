"""Iceberg's sink while its processes are killed: its table has each record once.

It commits the offsets of our members' group itself, in transactions of its own, together with what it writes. The task
with the group's first partition coordinates what all of them have written.
"""

import contextlib
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from support.chaos.evidence import Evidence
from support.chaos.java_faults import JavaFault, struck
from support.cluster import LightWorker
from support.iceberg import SETTINGS, iceberg, rows, sink_config
from support.long_form import IS_LONG
from support.worker import Worker

pytestmark = [pytest.mark.chaos, pytest.mark.skipif(not IS_LONG, reason="FENCEPOST_CHAOS=long")]
WITHIN_S = 240
TABLE = "shop.orders"
PASSES = int(os.environ.get("FENCEPOST_CHAOS_PASSES", "4"))
RECORDS = 200
FAULTS = (
    JavaFault.KILL_HOST,
    JavaFault.KILL_SLOT,
    JavaFault.KILL_WORKER,
    JavaFault.STOP_BOTH,
    JavaFault.STOP_SLOT,
)


@pytest.fixture
def worker(kafka: EmbeddedKafka, tmp_path: Path) -> Iterator[Worker]:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    iceberg(plugins)
    settings = {
        "plugin.path": str(plugins),
        "spark.master": "local[4]",
        "slots.max": "2",
        "slot.lease.ms": "2000",
        **SETTINGS,
    }
    with LightWorker(kafka.bootstrap_servers, tmp_path, settings, group=f"iceberg-{os.getpid()}") as running:
        yield running


def produce(kafka: EmbeddedKafka, topic: str, partitions: int, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 5})
    for number in range(first, first + count):
        producer.produce(topic, b'{"id": %d, "name": "order %d"}' % (number, number), partition=number % partitions)
    assert producer.flush(60) == 0


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.timeout(300 * len(FAULTS) * PASSES)
def test_its_table_has_each_record_once(
    tasks: int,
    worker: Worker,
    kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
    seed: int,
    capfd: pytest.CaptureFixture[str],
) -> None:
    warehouse = tmp_path / "warehouse"
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(topic_name, partitions=tasks, replication=1)
    produce(kafka, topic_name, tasks, 0, RECORDS)
    soon = {"iceberg.kafka.session.timeout.ms": "6000", "iceberg.kafka.heartbeat.interval.ms": "2000"}
    config = sink_config(topic_name, kafka.bootstrap_servers, warehouse, TABLE) | soon  # when it notices its own dead
    config["tasks.max"] = str(tasks)
    answer = worker.create(topic_name, config)
    assert answer.status_code == 201, answer.text

    def ids() -> Counter[int]:
        return Counter(row["id"] for row in rows(warehouse, TABLE))

    eventually(lambda: len(ids()) == RECORDS, within_s=WITHIN_S)
    total = RECORDS
    drawn = random.Random(seed)
    with capfd.disabled(), contextlib.closing(Evidence(f"iceberg-{tasks}", seed)) as evidence:
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        for number, fault in enumerate((f for _ in range(PASSES) for f in drawn.sample(FAULTS, len(FAULTS))), 1):
            produce(kafka, topic_name, tasks, total, RECORDS // 2)
            began = time.monotonic()
            with struck(worker, fault, drawn.randrange(tasks)):
                produce(kafka, topic_name, tasks, total + RECORDS // 2, RECORDS // 2)
                total += RECORDS
                eventually(lambda: len(ids()) >= total, within_s=WITHIN_S)  # noqa: B023
                took_s = time.monotonic() - began
            evidence.fault(fault.value, "any moment", None, took_s, door="Java")
            print(f"fault {number}: {fault.value}: {took_s:.1f} s to the records after it", flush=True)
            assert ids() == Counter(range(total)), f"after fault {number}"
        eventually(lambda: sum(worker.sink_offsets(topic_name).values()) == total, within_s=WITHIN_S)
        assert ids() == Counter(range(total))
        print(f"{total} records, each once", flush=True)
        evidence.records, evidence.verdict = total, "clean"
