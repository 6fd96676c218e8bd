"""One running worker for most tests here: a start takes seconds."""

import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer
from file_connector import Produce, settings_of_tests

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.testing.verdict import Observation
from support.shared import shared
from support.worker import Worker

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))  # what reads the pages


@shared
def worker(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A healthy worker with exactly-once on. Tests share it: unique names, and no restart."""
    group = f"shared-{uuid.uuid4().hex[:6]}"
    directory = tmp_path_factory.mktemp("worker")
    running = Worker(kafka.bootstrap_servers, directory, settings_of_tests(), group=group)
    running.heeds_rights = True
    with running:
        eventually(running.slots, within_s=200)  # Spark starts beside REST, on a busy machine long after it
        yield running


@pytest.fixture
def name(worker: Worker, topic_name: str) -> Iterator[str]:
    """The name of a connector; it is deleted afterwards."""
    yield topic_name
    worker.rest.delete(f"/connectors/{topic_name}")


@pytest.fixture
def partitions() -> int:
    """How many the topic has that a test writes to; a module may have its own."""
    return 4


@pytest.fixture
def topic(kafka: EmbeddedKafka, topic_name: str, partitions: int) -> str:
    """A topic for a sink."""
    made = f"{topic_name}-in"
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(made, partitions=partitions, replication=1)
    return made


@pytest.fixture
def value_of() -> Callable[[int], bytes]:
    """The value of a number in the topic; a module may have its own."""
    return lambda number: str(number).encode()


@pytest.fixture
def produce(kafka: EmbeddedKafka, topic: str, partitions: int, value_of: Callable[[int], bytes]) -> Produce:
    """Writes numbers to the topic, number n to partition n modulo `partitions`."""
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 5, "enable.idempotence": True}
    producer = Producer(settings)

    def write(first: int, last: int, partitions: int = partitions, to: str = topic) -> None:
        for number in range(first, last + 1):
            producer.produce(to, value_of(number), partition=number % partitions)
        assert producer.flush(30) == 0

    return write


@pytest.fixture
def values(kafka: EmbeddedKafka) -> Callable[..., list[str]]:
    """Returns the values that are visible in a topic, once there are `at_least` of them (0: to the topic's end)."""

    def read(topic: str, at_least: int = 0, within_s: float = 30.0) -> list[str]:
        with CommittedReader(kafka.bootstrap_servers, [topic]) as reader:
            if at_least:
                eventually(lambda: len(reader.seen()) >= at_least or _few(reader.seen()), within_s=within_s)
                found = reader.seen()
            else:
                found = reader.read_all(within_s)
        return [(o.value or b"").decode() for o in found]

    return read


def _few(found: Sequence[Observation]) -> bool:
    raise AssertionError(f"only {len(found)} records: {[o.value for o in found[-3:]]}")
