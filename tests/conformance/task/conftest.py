"""Topics of a task that runs without a worker, and the task of the KIP-910 suite."""

from collections.abc import Callable, Iterator

import pytest
from lone_updating import UpdatingRun

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin


@pytest.fixture
def start(kafka: EmbeddedKafka, topic_name: str) -> Iterator[Callable[..., UpdatingRun]]:
    """Starts a task that does what a script says; a second one goes on where the first one stopped."""
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    admin.topics.create(topic_name, partitions=1, replication=1)
    compact = {"cleanup.policy": "compact"}
    admin.topics.create(f"{topic_name}-offsets", partitions=1, replication=1, configs=compact)
    runs: list[UpdatingRun] = []

    def start(*polls: object, **how: object) -> UpdatingRun:
        runs.append(UpdatingRun(kafka.bootstrap_servers, topic_name, polls, **how))  # type: ignore[arg-type]
        runs[-1].start()
        return runs[-1]

    yield start
    for run in runs:
        run.stop()
        run.close()
