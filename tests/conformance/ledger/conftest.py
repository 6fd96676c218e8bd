"""A task with a ledger."""

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from support.ledger_stage import LedgerStage


@pytest.fixture
def stage(kafka: EmbeddedKafka, topic_name: str) -> LedgerStage:
    """A task that writes to a topic with two partitions."""
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    admin.topics.create(topic_name, partitions=2, replication=1)
    for name in (f"{topic_name}-offsets", f"{topic_name}-ledger"):
        admin.topics.create(name, partitions=1, replication=1)
    return LedgerStage(kafka.bootstrap_servers, topic_name)
