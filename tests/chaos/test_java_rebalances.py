"""A Java sink whose partitions move from task to task while records come: each record is written once.

Nothing is killed. What a task was given is flushed and committed before others get its partitions. What its slot has
read beyond that, or decoded while Java put other records, is dropped with them (E14).
"""

import random
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from support.cluster import LightWorker
from support.feed import Feed
from support.java_plugins import compile_plugins
from support.long_form import IS_LONG
from support.quick import QUICK
from support.worker import Worker

WITHIN_S = 240
TASKS, PARTITIONS = 3, 6
RESTARTS = 60 if IS_LONG else 5
RECORDS_PER_S = 10_000  # more than the tasks write: records always wait in the slots
BLOCK, MOST_WAITING = 1000, 50_000


@pytest.fixture
def worker(kafka: EmbeddedKafka, tmp_path: Path) -> Iterator[Worker]:
    compile_plugins(tmp_path / "plugins" / "lines")
    settings = {
        "plugin.path": str(tmp_path / "plugins"),
        "spark.master": "local[8]",
        "slots.max": str(TASKS),
        "offset.flush.interval.ms": "2000",
        # One that is cut short would write records again, and so would the successor of a slot that is given up.
        "task.shutdown.graceful.timeout.ms": "60000",
        "slot.lease.ms": "60000",
        "session.timeout.ms": "60000",
        "java.host.options": QUICK,
    }
    group = f"rebalances-{uuid.uuid4().hex[:6]}"
    with LightWorker(kafka.bootstrap_servers, tmp_path, settings, group=group) as running:
        yield running


def feed_of(kafka: EmbeddedKafka, topic: str, committed: Callable[[], int]) -> Feed:
    """Return what writes records, up to MOST_WAITING beyond those that are committed."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 5})

    def write(numbers: range) -> bool:
        if numbers[-1] > committed() + MOST_WAITING:
            return False
        for number in numbers:
            producer.produce(topic, str(number).encode(), partition=number % PARTITIONS)
        return producer.flush(60) == 0

    return Feed(write, block=BLOCK, per_s=RECORDS_PER_S)


@pytest.mark.chaos
@pytest.mark.timeout(300 + 30 * RESTARTS)
def test_each_record_is_written_once_however_often_partitions_move(
    worker: Worker,
    kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
    seed: int,
    capfd: pytest.CaptureFixture[str],
) -> None:
    drawn = random.Random(seed)
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(
        topic_name, partitions=PARTITIONS, replication=1
    )
    config = {
        "connector.class": "tests.LinesSinkConnector",
        "topics": topic_name,
        "tasks.max": str(TASKS),
        "file": str(tmp_path / "out"),
        "apart": "yes",
        "patient": "yes",
        "pause.ms": "20",
        "consumer.override.max.poll.records": "50",
    }
    answer = worker.create(topic_name, config)
    assert answer.status_code == 201, answer.text

    def written() -> Counter[str]:
        lines = [line for file in tmp_path.glob("out-*") for line in file.read_text().splitlines()]
        return Counter(line.rpartition(" ")[2] for line in lines)

    def committed() -> int:
        return sum(worker.sink_offsets(topic_name).values())

    with capfd.disabled():
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        worker.wait_for_tasks(topic_name, *["RUNNING"] * TASKS, within_s=WITHIN_S)
        feed = feed_of(kafka, topic_name, committed)
        try:
            for _ in range(RESTARTS):
                mark = committed() + drawn.randrange(RECORDS_PER_S)
                eventually(lambda mark=mark: committed() > mark, within_s=WITHIN_S)
                answer = worker.rest.post(f"/connectors/{topic_name}/tasks/{drawn.randrange(TASKS)}/restart")
                assert answer.status_code == 204, answer.text
        finally:
            total = feed.stop()
        eventually(lambda: committed() == total, within_s=WITHIN_S)
        found = written()
        wrong = {number: count for number, count in found.items() if count != 1}
        print(f"{total} records, {RESTARTS} restarts, {len(wrong)} records not once", flush=True)
    assert found.keys() == {str(number) for number in range(1, total + 1)}
    assert not wrong, dict(list(wrong.items())[:10])
