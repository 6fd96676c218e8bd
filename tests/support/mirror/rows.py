"""Committed records of a topic, by partition."""

from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition

from fencepost.testing import eventually
from support.log_writer import LogWriter


class Row(NamedTuple):
    """A record without its offset."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None
    timestamp: tuple[int, int]


def rows(bootstrap: str, topic: str, partitions: int) -> dict[int, list[Row]]:
    """Return what a reader of committed records finds up to the end that there is now, by partition."""
    conf = {
        "bootstrap.servers": bootstrap,
        "group.id": "rows",
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 10,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(conf)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found: dict[int, list[Row]] = {number: [] for number in range(partitions)}
    waiting = set(found)

    def is_read() -> bool:
        for message in consumer.consume(1_000, 0.1):
            if message.error() is not None:
                waiting.discard(message.partition())
            else:
                row = Row(message.key(), message.value(), message.headers(), message.timestamp())
                found[message.partition()].append(row)
        return not waiting

    try:
        eventually(is_read, every_s=0)
    finally:
        consumer.close()
    return found


def values(where: LogWriter, topic: str) -> list[bytes | None]:
    """Return what is committed in a topic, partition by partition."""
    partitions = where.admin.topics.partitions(topic) or 0
    found = rows(where.bootstrap, topic, partitions) if partitions else {}
    return [row.value for own in found.values() for row in own]
