"""Iceberg's sink while its processes are killed: its table has each record once.

It commits the offsets of our member's group itself, in transactions of its own, together with what it writes.
"""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually
from support.cluster import LightWorker
from support.iceberg import SETTINGS, iceberg, rows, sink_config
from support.long_form import IS_LONG
from support.worker import Worker

pytestmark = [pytest.mark.chaos, pytest.mark.skipif(not IS_LONG, reason="FENCEPOST_CHAOS=long")]
WITHIN_S = 240
TABLE = "shop.orders"
ROUNDS, RECORDS = 9, 200


@pytest.fixture
def worker(kafka: EmbeddedKafka, tmp_path: Path) -> Iterator[Worker]:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    iceberg(plugins)
    settings = {"plugin.path": str(plugins), "spark.master": "local[4]", "slots.max": "2", **SETTINGS}
    with LightWorker(kafka.bootstrap_servers, tmp_path, settings, group=f"iceberg-{os.getpid()}") as running:
        yield running


def produce(kafka: EmbeddedKafka, topic: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 5})
    for number in range(first, first + count):
        producer.produce(topic, b'{"id": %d, "name": "order %d"}' % (number, number))
    assert producer.flush(60) == 0


def strike(worker: Worker, number: int) -> None:
    """Kill the host, the slot, or the worker with all below it."""
    slot = next(iter(worker.slots().values()))
    match number % 3:
        case 0:
            for child in psutil.Process(slot).children(recursive=True):
                child.kill()
        case 1:
            os.kill(slot, signal.SIGKILL)
        case 2:
            worker.kill()
            worker.start()


def test_its_table_has_each_record_once(worker: Worker, kafka: EmbeddedKafka, topic_name: str, tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    produce(kafka, topic_name, 0, RECORDS)
    answer = worker.create(topic_name, sink_config(topic_name, kafka.bootstrap_servers, warehouse, TABLE))
    assert answer.status_code == 201, answer.text

    def ids() -> Counter[int]:
        return Counter(row["id"] for row in rows(warehouse, TABLE))

    eventually(lambda: len(ids()) == RECORDS, within_s=WITHIN_S)
    total = RECORDS
    for number in range(ROUNDS):
        produce(kafka, topic_name, total, RECORDS // 2)
        strike(worker, number)
        produce(kafka, topic_name, total + RECORDS // 2, RECORDS // 2)
        total += RECORDS
        eventually(lambda: len(ids()) >= total, within_s=WITHIN_S)  # noqa: B023
        assert ids() == Counter(range(total)), f"after fault {number}"
    eventually(lambda: sum(worker.sink_offsets(topic_name).values()) == total, within_s=WITHIN_S)
    print(f"{total} records, each once, after {ROUNDS} kills")
