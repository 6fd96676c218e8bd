"""Quotas only slow down, beyond every deadline: of producers, of consumers, and of requests."""

import os
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.group.contributors import Contributors
from fencepost.kafka.group.memberless import memberless, read_stable
from fencepost.kafka.read.log import LogReader
from fencepost.kafka.read.range_input import RangeInput
from fencepost.kafka.setting.client_settings import range_conf
from fencepost.kafka.value.position import GroupOffset, LogRange
from fencepost.record import TopicPartition
from fencepost.testing.reader import CommittedReader
from fencepost.transaction import TransactionalWriter, WriterTimeouts
from support.clients import only_batch
from support.long_form import IS_LONG
from support.quotas import CONSUMER, PRODUCER, REQUEST, set_quotas

SHORT_S = 1.0  # less than each quota has somebody wait

pytestmark = pytest.mark.skipif(not IS_LONG, reason="waits for quotas, and a second has to be enough for the rest")


@pytest.fixture
def topic(kafka, topic_name: str) -> str:
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(topic_name, partitions=1, replication=1)
    return topic_name


@only_batch
def test_a_transaction_outlasts_the_quota_of_its_producer(
    kafka, topic: str, make_writer: Callable[..., TransactionalWriter]
) -> None:
    set_quotas(kafka.bootstrap_servers, topic, **{PRODUCER: 20_000.0})
    values = [os.urandom(10_000) for _ in range(30)]  # 300 kB, where 220 kB pass in the first 11 s
    writer = make_writer(conf={"client.id": topic}, timeouts=WriterTimeouts(flush_s=20, commit_s=SHORT_S))
    writer.open()
    for value in values:
        writer.send(topic, value)
    writer.flush()
    writer.commit()
    assert not writer.is_struck
    found = CommittedReader(kafka.bootstrap_servers, [topic]).read_all(60)
    assert [each.value for each in found] == values


@only_batch
def test_e20_the_search_for_producers_outlasts_a_consumers_quota(
    kafka, topic: str, make_writer: Callable[..., TransactionalWriter]
) -> None:
    servers, place = kafka.bootstrap_servers, TopicPartition(topic, 0)
    read_stable({"bootstrap.servers": servers}, topic, 60)  # a new broker has no coordinator of groups before
    writer = make_writer()
    writer.open()
    for number in range(20):
        writer.commit(group_offsets=[GroupOffset(*place, number, "n" * 4_000)], group_metadata=memberless(topic))
    set_quotas(servers, topic, **{CONSUMER: 8_000.0})
    asked = Contributors({"bootstrap.servers": servers, "client.id": topic}, timeout_s=5.0)
    for _ in range(2):
        assert asked.last(topic)[place].transactional_id == writer.transactional_id
    asked.close()


def test_e20_the_search_for_producers_outlasts_a_request_quota(kafka, topic: str) -> None:
    """Each answer asks for silence; a connection that is made anew is asked for it as well."""
    servers = kafka.bootstrap_servers
    read_stable({"bootstrap.servers": servers}, topic, 60)
    set_quotas(servers, topic, **{REQUEST: 0.01})
    asked = Contributors({"bootstrap.servers": servers, "client.id": topic}, timeout_s=5.0)
    for _ in range(2):
        assert asked.pending(topic) == []
    asked.close()


@pytest.fixture
def values(kafka, topic: str) -> list[bytes]:
    """Write 128 kB, of which a quota of 10 kB/s lets 110 kB pass in the first 11 s."""
    found = [b"%08d" % number * 1_000 for number in range(16)]
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True})
    for value in found:
        producer.produce(topic, value)
        producer.flush(60)
    set_quotas(kafka.bootstrap_servers, topic, **{CONSUMER: 10_000.0})
    return found


def test_range_is_read_completely_under_a_slow_quota(kafka, topic: str, values: list[bytes]) -> None:
    conf = range_conf({"bootstrap.servers": kafka.bootstrap_servers}, topic).conf
    reader = RangeInput({**conf, "client.id": topic}, LogRange(TopicPartition(topic, 0), 0, 16), idle_s=SHORT_S)
    assert [value for batch in reader.batches() for value in batch.column("value").to_pylist()] == values


def test_log_is_read_to_its_end_under_a_slow_quota(kafka, topic: str, values: list[bytes]) -> None:
    found: list[bytes | None] = []
    log = LogReader({"bootstrap.servers": kafka.bootstrap_servers, "client.id": topic}, topic)
    log.read_to_end(SHORT_S, lambda record: found.append(record.value))
    log.close()
    assert found == values
