"""What is in the log and what of it is committed, seen from Kafka, while somebody writes."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition

from bench.background import Background
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaRequestError, KafkaUnavailableError

EVERY_S = 0.04
"""A figure is not finer than this."""


class Sample(NamedTuple):
    """At `at_s` (monotonic) the ends of all topics together: of the log, and of what is committed.

    Offsets count a transaction's marker like a record.
    """

    at_s: float
    written: int
    committed: int


class Watcher(Background):
    """Asks for the ends of topics, of one partition if no other number is given, every 40 ms, in a thread; a context
    manager."""

    def __init__(self, bootstrap: str, topics: Sequence[str], partitions: int = 1) -> None:
        super().__init__()
        self.samples: list[Sample] = [Sample(time.monotonic(), 0, 0)]
        self._admin = Admin({"bootstrap.servers": bootstrap})
        self._partitions = [(topic, number) for topic in topics for number in range(partitions)]
        self._changed = threading.Condition()
        self._error: Exception | None = None

    @property
    def last(self) -> Sample:
        return self.samples[-1]

    def until(self, predicate: Callable[[Sample], bool], within_s: float) -> Sample:
        """The first sample from now on that fulfils `predicate`. TimeoutError says what was seen last."""
        deadline = time.monotonic() + within_s
        with self._changed:
            while not predicate(self.last):
                if self._error is not None:
                    raise self._error
                if not self._changed.wait(deadline - time.monotonic()):
                    raise TimeoutError(f"not within {within_s:.0f} s; the topics end at {self.last}")
            return self.last

    def until_quiet(self, records: int, quiet_s: float, within_s: float) -> Sample:
        """Wait until all is committed that is written, at least `records`, and nothing came for `quiet_s`.

        Returns the first sample that had it all.
        """
        deadline = time.monotonic() + within_s
        while True:
            reached = self.until(lambda s: s.committed == s.written >= records, deadline - time.monotonic())
            if self._stop.wait(quiet_s):
                raise TimeoutError("the watcher was stopped")
            if self.last[1:] == reached[1:]:
                return next(s for s in self.samples if s[1:] == reached[1:])

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            try:
                committed = sum(self._admin.offsets.ends(self._partitions, read_committed=True).values())
                at_s = time.monotonic()
                written = sum(self._admin.offsets.ends(self._partitions, read_committed=False).values())
            except (KafkaRequestError, KafkaUnavailableError) as error:
                self._error = error
                return
            with self._changed:
                self.samples.append(Sample(at_s, written, committed))
                self._changed.notify_all()


def last_value(bootstrap: str, topic: str, within_s: float = 30.0) -> bytes | None:
    """The last committed record of a topic of one partition; markers and offsets are passed over."""
    end = Admin({"bootstrap.servers": bootstrap}).offsets.ends([(topic, 0)], read_committed=True)[(topic, 0)]
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, max(end - 10, 0))])
    last: bytes | None = None
    deadline = time.monotonic() + within_s
    try:
        while time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None and message.error() is not None:
                return last
            if message is not None:
                last = message.value()
        raise TimeoutError(f"the end of {topic} was not reached within {within_s} s")
    finally:
        consumer.close()
