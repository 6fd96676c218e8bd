"""A minimal stream task: one member of the group with one producer for all partitions (KIP-447)."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

_ASK_S = 30.0
_MOST = 100
_RUN_S = 90


class Successor:
    """Copies a topic from the group's position, in the thread of `run`. A context manager: it leaves at the end."""

    def __init__(self, bootstrap: str, group: str, topics: tuple[str, str]) -> None:
        """It fences nobody but its own predecessor."""
        self.assignment: set[int] = set()
        self._input, self._output = topics
        conf = {"bootstrap.servers": bootstrap}
        id_ = f"{group}-successor"
        self._producer = Producer({**conf, "transactional.id": id_, "linger.ms": 0, "retry.backoff.ms": 5})
        self._producer.init_transactions(_ASK_S)
        self._consumer = Consumer(
            {
                **conf,
                "group.id": group,
                "session.timeout.ms": 30000,
                "heartbeat.interval.ms": 300,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
            }
        )

    def __enter__(self) -> "Successor":
        self._consumer.subscribe([self._input], on_assign=self._take, on_revoke=self._give)
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def run(self, until: Callable[[], object]) -> None:
        """Copy until it is so. Raises AssertionError where it never is."""
        deadline_s = time.monotonic() + _RUN_S
        while not until():
            assert time.monotonic() < deadline_s, f"not within {_RUN_S} s; it has partitions {self.assignment}"
            found = [each for each in self._consumer.consume(_MOST, 0.05) if each.error() is None]
            if found:
                self._copy(found)

    def _copy(self, messages: Sequence[Any]) -> None:
        self._producer.begin_transaction()
        behind = {}
        for message in messages:
            self._producer.produce(self._output, message.value())
            behind[message.partition()] = message.offset() + 1
        self._producer.flush(_ASK_S)
        offsets = [TopicPartition(self._input, partition, offset) for partition, offset in behind.items()]
        self._producer.send_offsets_to_transaction(offsets, self._consumer.consumer_group_metadata(), _ASK_S)
        self._producer.commit_transaction(_ASK_S)

    def _take(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.assign(consumer.committed(partitions, timeout=_ASK_S))
        self.assignment = {each.partition for each in partitions}

    def _give(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.assignment = set()
