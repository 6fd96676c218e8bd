"""Mirrored topics, as they are in both clusters."""

from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition
from flow import Flow

from fencepost.testing import eventually
from support.log_writer import LogWriter

SOON = {
    "heartbeats__replication__enabled": "false",  # other tests send some at the source that all share
    "source__consumer__fetch__max__wait__ms": "20",
    "refresh__topics__interval__seconds": "1",
    "sync__topic__configs__enabled": "false",
    "sync__topic__acls__enabled": "false",
}
"""What lets a flow hear of everything at once, and do nothing that its test does not look at."""


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


def await_same(flow: Flow, topic: str, remote: str | None = None, within_s: float = 60) -> dict[int, list[Row]]:
    """Wait until the target has what the source has, in the same partitions and order; return that."""
    count = flow.source.admin.topics.partitions(topic) or 0
    wanted = rows(flow.source.bootstrap, topic, count)
    name = remote or f"{flow.source_alias}.{topic}"

    def is_same() -> bool:
        assert flow.target.admin.topics.partitions(name) == count
        have = rows(flow.target.bootstrap, name, count)
        counts = {number: (len(wanted[number]), len(have[number])) for number in wanted}
        assert have == wanted, f"(wanted, have) by partition: {counts}"
        return True

    eventually(is_same, within_s=within_s, every_s=0.2)
    return wanted
