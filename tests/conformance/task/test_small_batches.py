"""Batches of a producer: the user's setting and the topic's limit hold, with one lane and with two."""

from collections.abc import Callable, Iterator

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from support.late.lone_task import LoneTask

LIMIT_BYTES = 3_000
SIZES = (3, 2_000, 2_000, 2_000)  # idle first, then under load

Make = Callable[..., LoneTask]


@pytest.fixture
def make(kafka: EmbeddedKafka, topic_name: str) -> Iterator[Make]:
    """Makes a task whose topic takes batches of a few hundred of its records."""
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    admin.topics.create(f"{topic_name}-offsets", partitions=1, replication=1)
    tasks: list[LoneTask] = []

    def make(*, limit_bytes: int = LIMIT_BYTES, **how: object) -> LoneTask:
        limit = {"max.message.bytes": str(limit_bytes)}
        admin.topics.create(topic_name, partitions=2, replication=1, configs=limit)
        tasks.append(LoneTask(kafka.bootstrap_servers, topic_name, f"{topic_name}-offsets", SIZES, **how))  # type: ignore[arg-type]
        return tasks[-1]

    yield make
    for task in tasks:
        task.stop()


def delivered(kafka: EmbeddedKafka, topic: str, task: LoneTask) -> list[int]:
    def is_over() -> bool:
        assert task.failure is None, task.failure
        return task.position() == sum(SIZES)

    eventually(is_over, within_s=60)
    with CommittedReader(kafka.bootstrap_servers, [topic]) as reader:
        numbers = [int(o.value or b"-1") for o in reader.read_all(30)]
    for own in ([n for n in numbers if n % 2 == partition] for partition in (0, 1)):
        assert own == sorted(own), "the order within a partition"
    return sorted(numbers)


@pytest.mark.parametrize("lanes", [1, 2])
def test_topic_with_a_small_size_limit_accepts_all_records_under_load(
    make: Make, kafka: EmbeddedKafka, topic_name: str, lanes: int
) -> None:
    """A larger batch than the topic takes is refused as a whole, though each of its records is small."""
    with make(lanes=lanes) as task:
        assert delivered(kafka, topic_name, task) == list(range(sum(SIZES)))


def test_configured_batch_size_applies_with_two_lanes(make: Make, kafka: EmbeddedKafka, topic_name: str) -> None:
    with make(lanes=2, conf={"batch.size": "2000"}, batch_bytes=2_000) as task:
        assert delivered(kafka, topic_name, task) == list(range(sum(SIZES)))
        assert task.producers_retired == 0


def test_record_above_its_topics_size_limit_fails_the_task(make: Make) -> None:
    """However small the batches become."""
    with make(lanes=1, limit_bytes=300, width=500) as task:
        eventually(lambda: task.failure is not None, within_s=60)
        assert "MSG_SIZE_TOO_LARGE" in str(task.failure)
