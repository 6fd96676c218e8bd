"""A log whose topic gets another partition."""

from collections.abc import Iterable
from typing import Any

import pytest

from fencepost.kafka.admin.topics import Topic
from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.kafka.read import log
from fencepost.kafka.read.log import LogReader


class Cluster:
    """A cluster with one topic, and the client that reads it."""

    def __init__(self) -> None:
        self.partitions = 1
        self.is_away = False
        self.read: list[int] = []

    # as the administrator

    @property
    def topics(self) -> "Cluster":
        return self

    offsets = topics

    def get(self, name: str, *, timeout_s: float) -> Topic:
        return Topic(self.partitions, "id")

    def starts(self, places: Iterable[tuple[str, int]], *, timeout_s: float) -> dict[tuple[str, int], int]:
        if self.is_away:
            raise KafkaUnavailableError("away")
        return dict.fromkeys(places, 0)

    # as the client

    def assign(self, partitions: list[Any]) -> None:
        self.read = [each.partition for each in partitions]

    def list_topics(self, topic: str, timeout: float) -> None:
        pass

    def consume(self, most: int, timeout_s: float) -> list[Any]:
        return []

    def poll(self, timeout_s: float) -> None:
        pass

    def position(self, partitions: list[Any]) -> list[Any]:
        return []


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()
    monkeypatch.setattr(log, "Admin", lambda conf: cluster)
    monkeypatch.setattr(log, "Consumer", lambda conf, logger: cluster)
    return cluster


def test_new_partition_is_read_after_the_cluster_was_away_at_its_discovery(cluster: Cluster) -> None:
    reader = LogReader({"bootstrap.servers": "unused:9092"}, "t")
    reader.start()
    assert cluster.read == [0]
    cluster.partitions, cluster.is_away = 2, True
    reader.look(1.0)
    with pytest.raises(KafkaUnavailableError):
        reader.poll(lambda record: None, 0.0)
    cluster.is_away = False
    reader.poll(lambda record: None, 0.0)
    assert cluster.read == [0, 1]
