"""A program of the old style (before KIP-447) that does what `NumberingStream` does, in its group.

Its producers are for one partition each; offsets go into their transactions by the name of the group alone.

    python -m support.chaos.old_stream BOOTSTRAP GROUP TOPICS OUTPUT

It says "ready" once it has partitions, and ends when it is refused.
"""

import sys
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition

_ASK_S = 30.0
_MOST = 50
_POLL_S = 0.05


class OldStream:
    """One instance, for as long as nobody refuses it."""

    def __init__(self, bootstrap: str, group: str, topics: str, output: str) -> None:
        self._bootstrap, self._output = bootstrap, output
        self._producers: dict[tuple[str, int], Producer] = {}
        self._of_group = Consumer({"group.id": group}).consumer_group_metadata()  # of no generation
        self._consumer = Consumer({
            "bootstrap.servers": bootstrap, "group.id": group, "session.timeout.ms": 3000, "heartbeat.interval.ms": 300,
            "partition.assignment.strategy": "roundrobin",  # so that it has a partition, whoever else is there
            "enable.auto.commit": False, "isolation.level": "read_committed", "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 20, "log_level": 0,
        })  # fmt: skip
        self._consumer.subscribe(topics.split(","), on_assign=self._take, on_revoke=self._give)

    def run(self) -> None:
        """Raises KafkaException once it is refused."""
        while True:
            found: dict[tuple[str, int], list[Message]] = {}
            for message in self._consumer.consume(_MOST, _POLL_S):
                if message.error() is None:
                    found.setdefault((message.topic(), message.partition()), []).append(message)
            for place, messages in found.items():
                self._process(place, messages)

    def _process(self, place: tuple[str, int], messages: list[Message]) -> None:
        producer = self._producers[place]
        producer.begin_transaction()
        for message in messages:
            number: Any = dict(message.headers() or ())["n"]
            producer.produce(self._output, number, f"{place[0]}-{place[1]}".encode())
        behind = TopicPartition(*place, messages[-1].offset() + 1)
        producer.send_offsets_to_transaction([behind], self._of_group, _ASK_S)
        producer.commit_transaction(_ASK_S)

    def _take(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            producer = Producer({
                "bootstrap.servers": self._bootstrap, "transactional.id": f"old-{each.topic}-{each.partition}",
                "transaction.timeout.ms": 600_000, "linger.ms": 0, "retry.backoff.ms": 5, "log_level": 0,
                "partitioner": "murmur2_random",
            })  # fmt: skip
            producer.init_transactions(_ASK_S)
            self._producers[each.topic, each.partition] = producer
        consumer.assign(consumer.committed(partitions, timeout=_ASK_S))
        if partitions:
            print("ready", flush=True)

    def _give(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._producers.clear()


if __name__ == "__main__":
    OldStream(*sys.argv[1:]).run()
