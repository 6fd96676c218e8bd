"""Clients of the session's broker, and a broker of one's own for tests that take it down."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from support.quick import quick_kafka
from support.shared import shared


@pytest.fixture
def conf(kafka: EmbeddedKafka) -> dict[str, Any]:
    return {"bootstrap.servers": kafka.bootstrap_servers}


@pytest.fixture
def admin(conf: dict[str, Any]) -> Admin:
    return Admin(conf)


@pytest.fixture
def topic(admin: Admin, topic_name: str) -> str:
    """A compacted topic of one partition."""
    admin.topics.create(topic_name, partitions=1, replication=1, configs={"cleanup.policy": "compact"})
    return topic_name


@pytest.fixture
def transactional(conf: dict[str, Any], topic_name: str) -> Callable[[], Producer]:
    """Makes producers of one transactional id: each fences the one before."""

    def make() -> Producer:
        producer = Producer({**conf, "transactional.id": f"tx-{topic_name}", "partitioner": "murmur2_random"})
        producer.init_transactions(30)
        return producer

    return make


@pytest.fixture
def produce(conf: dict[str, Any]) -> Callable[..., None]:
    """Writes (key, value) pairs outside of transactions."""
    producer = Producer({**conf, "partitioner": "murmur2_random"})

    def write(topic: str, *records: tuple[bytes, bytes | None]) -> None:
        for key, value in records:
            producer.produce(topic, key=key, value=value)
        assert producer.flush(30) == 0

    return write


@shared
def own_kafka() -> Iterator[EmbeddedKafka]:
    """May be killed; it is always running when a test gets it."""
    with quick_kafka() as broker:
        yield broker
