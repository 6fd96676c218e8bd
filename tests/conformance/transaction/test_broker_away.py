"""A broker that was away while a transaction was open: the writer has to continue when it is back."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.group.member import Term
from fencepost.kafka.value.position import GroupOffset
from fencepost.testing import eventually
from support.long_form import IS_LONG
from support.member import undisturbed_member
from support.quick import quick_kafka

TOPIC = "t"
ROUNDS = 2 if IS_LONG else 1


@pytest.fixture
def broker() -> Iterator[EmbeddedKafka]:
    """One of its own: it is killed."""
    with quick_kafka(start_timeout_s=240) as running:
        Admin({"bootstrap.servers": running.bootstrap_servers}).topics.create(TOPIC, partitions=1, replication=1)
        yield running


def test_commit_ends_when_the_group_coordinator_was_away(broker, make_writer):
    """librdkafka may wait for a coordinator that it has asked before for ever, and for longer than it was told to."""
    servers = broker.bootstrap_servers
    terms: list[Term] = []
    member = undisturbed_member({"bootstrap.servers": servers, "group.id": "g"}, TOPIC, terms.append)
    member.start()
    metadata = eventually(lambda: terms and terms[-1].metadata, within_s=120)
    with ThreadPoolExecutor(1) as pool:
        for _ in range(ROUNDS):
            writer = make_writer("w", bootstrap=servers)
            writer.open()
            writer.commit(group_offsets=[GroupOffset(TOPIC, 0, 1)], group_metadata=metadata)
            writer.send(TOPIC, b"open")
            writer.flush()
            broker.kill()
            commit = pool.submit(writer.commit, group_offsets=[GroupOffset(TOPIC, 0, 2)], group_metadata=metadata)
            broker.start()
            commit.exception(120)
            writer.close()
            metadata = eventually(lambda: terms[-1].metadata, within_s=120)
    successor = make_writer("w", bootstrap=servers)
    successor.open()
    successor.send(TOPIC, b"next")
    successor.commit()
    member.stop()
