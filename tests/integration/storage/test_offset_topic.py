"""Offsets on the real broker: settled before they are read."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import MissingTopicError, ReadTimeoutError
from fencepost.storage.offset_topic import OffsetReader, StoredOffset, encode, encode_offset, stored
from fencepost.testing import eventually

PARTITION = {"filename": "f"}


@pytest.fixture
def offsets(admin: Admin, topic_name: str) -> str:
    admin.topics.create(topic_name, partitions=25, replication=1, configs={"cleanup.policy": "compact"})
    return topic_name


@pytest.fixture
def reader(conf: dict[str, Any], offsets: str) -> Iterator[OffsetReader]:
    kept = OffsetReader(conf, offsets)
    yield kept
    kept.close()


def read(reader: OffsetReader, connector: str, timeout_s: float = 30) -> list[StoredOffset]:
    return stored(reader.read_known(connector, timeout_s))


def write(producer: Producer, topic: str, position: int) -> None:
    key, value = encode("c", PARTITION, {"position": position})
    producer.begin_transaction()
    producer.produce(topic, key=key, value=value)
    producer.flush(60)


def test_only_committed_offsets_are_read(reader: OffsetReader, offsets: str, transactional: Callable[[], Producer]):
    producer = transactional()
    assert read(reader, "c") == []
    for position in (1, 2):
        write(producer, offsets, position)
        producer.commit_transaction(10)
    write(producer, offsets, 3)
    producer.abort_transaction(10)
    assert read(reader, "c") == [StoredOffset(PARTITION, {"position": 2})]
    assert read(reader, "other") == []


def test_offsets_are_read_after_the_fence(reader: OffsetReader, offsets: str, transactional: Callable[[], Producer]):
    zombie = transactional()
    write(zombie, offsets, 1)
    zombie.commit_transaction(10)
    write(zombie, offsets, 2)
    with pytest.raises(ReadTimeoutError):
        read(reader, "c", 3)
    transactional()
    assert read(reader, "c") == [StoredOffset(PARTITION, {"position": 1})]


def test_catching_up_reads_committed_offsets_and_waits_for_nothing(
    reader: OffsetReader, offsets: str, transactional: Callable[[], Producer]
):
    producer = transactional()
    reader.catch_up(10)
    write(producer, offsets, 1)
    producer.commit_transaction(10)
    write(producer, offsets, 2)
    reader.catch_up(10)
    assert stored(reader._table.known("c")) == [StoredOffset(PARTITION, {"position": 1})]
    threading.Timer(0.3, producer.commit_transaction, [60]).start()
    assert read(reader, "c") == [StoredOffset(PARTITION, {"position": 2})]


def test_waiting_read_does_not_keep_a_neighbour_from_committing(
    reader: OffsetReader, offsets: str, transactional: Callable[[], Producer]
):
    neighbour = transactional()
    write(neighbour, offsets, 1)
    found: list[StoredOffset] = []
    reading = threading.Thread(target=lambda: found.extend(read(reader, "c")))
    reading.start()
    # What the neighbour still does in the transaction that the read waits for.
    neighbour.produce(offsets, key=reader.key("c", PARTITION), value=encode_offset({"position": 2}))
    neighbour.commit_transaction(10)
    reading.join(60)
    assert found == [StoredOffset(PARTITION, {"position": 2})]


def test_a_tombstone_deletes_an_offset_and_a_foreign_spelling_is_kept(
    reader: OffsetReader, offsets: str, produce: Callable[..., None]
):
    produce(offsets, (b'["c",{"b":1,"a":2}]', b'{"n":1}'))
    assert read(reader, "c") == [StoredOffset({"a": 2, "b": 1}, {"n": 1})]
    assert reader.key("c", {"a": 2, "b": 1}) == b'["c",{"b":1,"a":2}]'
    produce(offsets, (reader.key("c", {"a": 2, "b": 1}), None))
    assert read(reader, "c") == []


def test_a_recreated_topic_has_no_offsets_of_the_deleted_topic(
    reader: OffsetReader, offsets: str, admin: Admin, produce: Callable[..., None]
):
    produce(offsets, encode("c", PARTITION, {"position": 1}), encode("c", PARTITION, {"position": 2}))
    assert read(reader, "c") == [StoredOffset(PARTITION, {"position": 2})]
    admin.topics.delete([offsets])
    eventually(lambda: admin.topics.partitions(offsets) is None)
    with pytest.raises(MissingTopicError):
        read(reader, "c")
    admin.topics.create(offsets, partitions=25, replication=1, configs={"cleanup.policy": "compact"})
    produce(offsets, encode("d", PARTITION, {"position": 3}))
    assert (read(reader, "c"), read(reader, "d")) == ([], [StoredOffset(PARTITION, {"position": 3})])
