"""Members of groups on a secured broker: they log in with TLS and SASL, and learn what they may not read."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaAuthorizationError
from fencepost.kafka.read.group_batches import BatchGroupInput
from fencepost.kafka.read.group_input import GroupInput
from support.group_members import Members, Notes, poll_for_long, read
from support.secured import Grant, SecuredKafka


def right(resource: str, name: str, operation: str) -> Grant:
    return Grant("User:reader", resource, name, operation)


@pytest.fixture(params=[GroupInput, BatchGroupInput], ids=["records", "batches"])
def members(broker: SecuredKafka, topic_name: str, request: pytest.FixtureRequest) -> Iterator[Members]:
    Admin({"bootstrap.servers": broker.kafka.internal_servers}).topics.create(topic_name, partitions=1, replication=1)
    made = Members(broker.kafka.bootstrap_servers, topic_name, request.param)
    yield made
    for each in made.made:
        each.close()


def test_an_unreadable_topic_fails_the_member_until_the_right_is_granted(
    members: Members, broker: SecuredKafka
) -> None:
    producer = Producer({"bootstrap.servers": broker.kafka.internal_servers})
    producer.produce(members.topic, b"a")
    producer.flush(30)
    broker.grant([right("group", members.group, "Read"), right("topic", members.topic, "Describe")])
    member = members.join(Notes(), **broker.client("reader"))
    with pytest.raises(KafkaAuthorizationError, match=r"member of group .*Topic authorization failed"):
        poll_for_long(member)
    member.close()
    broker.grant([right("topic", members.topic, "Read")])
    assert read(members.join(Notes(), **broker.client("reader")), 1) == [(0, 0)]
