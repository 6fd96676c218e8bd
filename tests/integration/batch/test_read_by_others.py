"""Batches that were made column by column, read by others: record by record what was written."""

import base64
import itertools
import os
import random
import uuid
from collections import defaultdict

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PlacedPartition

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.codec.compress import NAMES
from fencepost.kafka.codec.encode_header import taken_batch
from support.batch_topic import BatchWriter, Records, batch_topic, difference, written_batches
from support.java_program import records_read_by_java
from support.slow_batch import PlainRecord

_READ_WITHIN_S = 60


@pytest.fixture(scope="module")
def topic() -> str:
    return f"batches-{uuid.uuid4().hex[:6]}"


@pytest.fixture(scope="module")
def records(kafka: EmbeddedKafka, topic: str) -> Records:
    seed = int(os.environ.get("FENCEPOST_CHAOS_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"\nFENCEPOST_CHAOS_SEED={seed}")
    return written_batches(kafka.bootstrap_servers, topic, random.Random(seed))


def read_by_librdkafka(bootstrap: str, topic: str, counts: dict[int, int]) -> Records:
    settings = {"bootstrap.servers": bootstrap, "group.id": topic, "check.crcs": True, "fetch.wait.max.ms": 10}
    consumer = Consumer({**settings, "isolation.level": "read_committed"})
    found: Records = defaultdict(list)
    try:
        for partition, count in counts.items():
            consumer.assign([TopicPartition(topic, partition, 0)])
            for expected in range(count):
                message: Message | None = consumer.poll(_READ_WITHIN_S)
                assert message is not None, f"partition {partition} ends at {expected} of {count}"
                assert message.error() is None, message.error()
                assert message.offset() == expected
                headers = tuple(message.headers() or ())
                found[partition].append(PlainRecord(message.key(), message.value(), message.timestamp()[1], headers))
    finally:
        consumer.close()
    return found


def counted(records: Records) -> dict[int, int]:
    return {partition: len(each) for partition, each in records.items()}


def test_librdkafka_reads_written_batches(kafka: EmbeddedKafka, topic: str, records: Records) -> None:
    assert difference(read_by_librdkafka(kafka.bootstrap_servers, topic, counted(records)), records) is None


def test_java_reads_written_batches(kafka: EmbeddedKafka, topic: str, records: Records) -> None:
    found: Records = defaultdict(list)
    for line in records_read_by_java(kafka.bootstrap_servers, topic):
        partition, offset, timestamp, *data = line.split(" ")
        assert int(offset) == len(found[int(partition)])
        key, value, *headers = [None if text == "null" else base64.b64decode(text[1:]) for text in data]
        pairs = zip(headers[::2], headers[1::2], strict=True)
        named = tuple((name.decode(), content) for name, content in pairs if name is not None)
        found[int(partition)].append(PlainRecord(key, value, int(timestamp), named))
    assert difference(found, records) is None


@pytest.mark.parametrize("codec", ["none", "gzip"])  # the others take libraries that nothing else here needs
def test_kafka_python_reads_written_batches(kafka: EmbeddedKafka, topic: str, records: Records, codec: str) -> None:
    partition = NAMES.index(codec)
    with KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, consumer_timeout_ms=_READ_WITHIN_S * 1_000) as reader:
        reader.assign([PlacedPartition(topic, partition)])
        reader.seek_to_beginning()
        found = list(itertools.islice(reader, len(records[partition])))
    assert [read.offset for read in found] == list(range(len(records[partition])))
    read = [PlainRecord(each.key, each.value, each.timestamp, tuple(each.headers)) for each in found]
    assert difference({partition: read}, {partition: records[partition]}) is None


def test_batches_copied_from_a_broker_have_the_same_records(kafka: EmbeddedKafka, topic: str, records: Records) -> None:
    copy = f"{topic}-copy"
    batch_topic(kafka.bootstrap_servers, copy)
    with BatchWriter(kafka.bootstrap_servers) as writer:
        for partition in records:
            for batch in writer.read(topic, partition):
                writer.write(copy, partition, taken_batch(batch))
    assert difference(read_by_librdkafka(kafka.bootstrap_servers, copy, counted(records)), records) is None
