"""Admin calls on the real broker."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaRequestError, KafkaUnavailableError
from fencepost.kafka.group.transactions import TransactionAdmin
from fencepost.testing import eventually
from support.proxy import KafkaProxy


def test_topic_is_created_once_with_its_configs(admin: Admin, topic_name: str):
    assert admin.topics.partitions(topic_name) is None
    assert admin.topics.ensure(topic_name, partitions=3, replication=1, configs={"cleanup.policy": "compact"})
    assert not admin.topics.ensure(topic_name, partitions=5, replication=1)
    assert admin.topics.partitions(topic_name) == 3
    assert admin.configs.get(topic_name)["cleanup.policy"] == "compact"
    admin.topics.delete([topic_name, f"{topic_name}-missing"])
    eventually(lambda: admin.topics.partitions(topic_name) is None)


def test_refusal_names_the_refused_request(admin: Admin, topic_name: str):
    with pytest.raises(KafkaRequestError, match=f"creating topic {topic_name}: .*REPLICATION_FACTOR"):
        admin.topics.create(topic_name, partitions=1, replication=9)


def test_unreachable_broker_is_named():
    with pytest.raises(KafkaUnavailableError, match=r"asking for the cluster id \(bootstrap.servers=127.0.0.1:1\)"):
        Admin({"bootstrap.servers": "127.0.0.1:1"}, timeout_s=0.5).cluster_id()


def test_cluster_has_an_id(admin: Admin):
    assert len(admin.cluster_id()) == 22


def test_end_offsets_depend_on_the_isolation_level(
    admin: Admin, conf: dict[str, Any], topic: str, transactional: Callable[[], Producer]
):
    producer = transactional()
    producer.begin_transaction()
    producer.produce(topic, b"x", b"k")
    producer.flush(60)
    assert admin.offsets.ends([(topic, 0)], read_committed=False) == {(topic, 0): 1}
    assert admin.offsets.ends([(topic, 0)], read_committed=True) == {(topic, 0): 0}
    assert admin.offsets.ends([], read_committed=True) == {}
    transactions = TransactionAdmin(conf)
    (described,) = transactions.describe([f"tx-{topic}", "unknown"]).values()
    transactions.close()
    assert described.state == "Ongoing"
    assert described.topic_partitions == {(topic, 0)}
    producer.abort_transaction(10)


def test_group_members_carry_their_client_id(admin: Admin, conf: dict[str, Any], topic: str):
    assert admin.groups.describe(topic).state == "Dead"
    consumer = Consumer({**conf, "group.id": topic, "client.id": '{"url":"http://h:1"}'})
    consumer.subscribe([topic])
    try:
        eventually(lambda: (consumer.poll(0.1), consumer.assignment())[1])
        group = admin.groups.describe(topic)
        assert group.state == "Stable"
        assert [member.client_id for member in group.members] == ['{"url":"http://h:1"}']
        assert group.members[0].topic_partitions == {(topic, 0)}
    finally:
        consumer.close()


def test_concurrent_requests_for_a_group_succeed_while_connections_are_lost(kafka, topic: str):
    """librdkafka's own way may end the process here: a worker has to outlive a broker's restart."""
    with KafkaProxy(kafka.bootstrap_servers) as proxy, ThreadPoolExecutor(8) as pool:
        conf = {"bootstrap.servers": proxy.bootstrap_servers}
        admin, hasty = Admin(conf), Admin(conf, timeout_s=2.0)
        assert {asked.state for asked in pool.map(admin.groups.describe, [topic] * 20)} == {"Dead"}
        for _ in range(3):
            asked = [pool.submit(admin.groups.describe, topic) for _ in range(8)]
            proxy.reset_all()
            assert {each.exception() for each in asked} == {None}
        proxy.pause()
        with pytest.raises(KafkaUnavailableError, match="describing group"):
            hasty.groups.describe(topic)
        proxy.resume()
        assert admin.groups.describe(topic).state == "Dead"
