import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from support.dead_letters import DeadLetters


@pytest.fixture
def letters(kafka: EmbeddedKafka, topic_name: str) -> DeadLetters:
    """A topic that a sink reads, and another one of its dead letters; both have two partitions."""
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    for name in (topic_name, f"{topic_name}-dead"):
        admin.topics.create(name, partitions=2, replication=1, configs={"retention.ms": "-1"})  # from 1970
    return DeadLetters(kafka.bootstrap_servers, topic_name)
