"""The members of a program with `GroupTransactions` fence what is stale, and not each other (E20)."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.group.memberless import memberless, read_stable
from fencepost.record import TopicPartition
from fencepost.testing import eventually
from fencepost.transaction import GroupTransactions
from support.member import undisturbed_member


@pytest.fixture
def metadata(kafka: EmbeddedKafka, topic: str) -> Iterator[Callable[[], Any]]:
    """Group metadata of a live member that owns the topic."""
    terms: list[Any] = []
    conf = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": f"group-{topic}"}
    membership = undisturbed_member(conf, topic, terms.append)
    membership.start()
    yield lambda: eventually(lambda: terms and terms[-1].metadata, within_s=60)
    membership.stop()


def test_e20_members_with_numbered_ids_do_not_fence_each_other(
    kafka: EmbeddedKafka, topic: str, metadata: Callable[[], Any]
) -> None:
    group, kafka_conf = f"group-{topic}", {"bootstrap.servers": kafka.bootstrap_servers}
    read_stable(kafka_conf, group, 60)
    with (
        GroupTransactions(kafka_conf, group, f"{topic}-0") as first,
        GroupTransactions(kafka_conf, group, f"{topic}-1") as second,
    ):
        for partition, member in enumerate((first, second)):
            member.send(topic, b"x", partition=partition)
            member.commit({TopicPartition(topic, partition): 1}, memberless(group))
        places = [TopicPartition(topic, partition) for partition in range(2)]
        assert first.positions(places, metadata()) == dict.fromkeys(places, 1)
        second.send(topic, b"y", partition=1)
        second.commit({places[1]: 2}, metadata())
        assert second.positions(places, metadata()) == {places[0]: 1, places[1]: 2}
        first.send(topic, b"y", partition=0)
        first.commit({places[0]: 2}, metadata())
