"""Lines as they become visible to an application: a read_committed consumer, in a thread."""

import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition

from bench.background import Background
from bench.lines import number_of

ASK_EVERY_MS = 5
"""The broker tells a read_committed consumer of an end of a transaction when it asks the next time."""


class Seen(NamedTuple):
    """A line, when (monotonic) it was handed to the application, and the topic that it was in."""

    number: int
    at_s: float
    topic: str = ""


def anomalies(seen: Sequence[Seen]) -> int:
    """How often a line was not the one after its predecessor, from line 0 on: one was lost, double or out of order."""
    numbers = [-1, *(each.number for each in seen)]
    return sum(after != before + 1 for before, after in pairwise(numbers))


class Tail(Background):
    """Reads topics of one partition each from their beginning; a context manager. Lines are known by their numbers."""

    def __init__(self, bootstrap: str, *topics: str, number: Callable[[bytes], int] = number_of) -> None:
        """`number` tells a line's from its value."""
        super().__init__()
        self._number = number
        self.seen: list[Seen] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "bench",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": ASK_EVERY_MS,
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, 0) for topic in topics])
        self._news = threading.Condition()
        self._error: Exception | None = None

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._consumer.close()

    def wait_for(self, number: int, within_s: float) -> Seen:
        """The line with this number, or the first after it; waits. TimeoutError."""
        return self.first(lambda seen: seen.number >= number, within_s)

    def next_after(self, at_s: float, within_s: float, topic: str = "") -> Seen:
        """The first line, of any topic or of this one, that was seen after `at_s`; waits. TimeoutError."""
        return self.first(lambda seen: seen.at_s > at_s and topic in ("", seen.topic), within_s)

    def first(self, accept: Callable[[Seen], bool], within_s: float) -> Seen:
        """The first line that is accepted; waits. TimeoutError."""
        deadline = time.monotonic() + within_s
        begin = 0
        with self._news:
            while True:
                for seen in self.seen[begin:]:
                    if accept(seen):
                        return seen
                begin = len(self.seen)
                if self._error is not None:
                    raise self._error
                if not self._news.wait(deadline - time.monotonic()):
                    raise TimeoutError(f"not within {within_s:.0f} s; last seen: {self.seen[-1:]}")

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                messages = self._consumer.consume(1000, 0) or [self._consumer.poll(0.1)]
                at_s = time.monotonic()
                records = [m for m in messages if m is not None and m.error() is None]
                found = [Seen(self._number(m.value()), at_s, m.topic()) for m in records]
                if found:
                    with self._news:
                        self.seen += found
                        self._news.notify_all()
        except Exception as error:
            self._error = error
