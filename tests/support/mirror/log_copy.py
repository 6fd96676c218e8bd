"""All records that a `read_committed` reader sees, byte for byte, of topics that grow and appear while it reads."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaRequestError, KafkaUnavailableError, is_unavailable
from fencepost.testing import eventually

_BATCH = 2_000
_POLL_S = 0.05
_LOOK_S = 0.3
_ASK_S = 5.0
_PASSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC)

Place = tuple[str, int]
"""A partition of a topic."""

NUMBER = "n"
"""The header in which a workload numbers the records of each partition."""


class Content(NamedTuple):
    """The parts of a record that a mirror must not change."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]

    def __str__(self) -> str:
        return f"number {self.number}, key {self.key!r}"

    @property
    def number(self) -> int:
        """The number that the workload gave it, or -1."""
        return next((int(value or b"-1") for name, value in self.headers if name == NUMBER), -1)


Logs = dict[Place, dict[int, Content]]
"""Records by partition and offset, in the order of the log; partitions without records, too."""


class LogCopy:
    """Reads the topics of a cluster that it `wants` from their beginning, in a thread; a context manager.

    New topics and partitions are looked for every 0.3 s. An unreachable broker is waited for; any other error ends the
    thread and is raised by whoever asks: a test must not pass because its reader died.
    """

    def __init__(self, bootstrap: str, wants: Callable[[str], bool]) -> None:
        self._wants = wants
        self._admin = Admin({"bootstrap.servers": bootstrap})
        self._consumer = Consumer(_conf(bootstrap))
        self._logs: Logs = {}
        self._latest: dict[Place, int] = {}
        self._positions: dict[Place, int] = {}
        self._news = threading.Condition()
        self._error: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log-copy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()
        self._admin.close()

    def logs(self) -> Logs:
        """Return what was seen so far."""
        with self._news:
            self._check()
            return {place: dict(found) for place, found in self._logs.items()}

    def behind(self, numbers: Mapping[Place, int]) -> dict[Place, int]:
        """Return the partitions of which no record with so great a number was seen, with the greatest that was."""
        with self._news:
            self._check()
            return {p: self._latest.get(p, -1) for p, n in numbers.items() if self._latest.get(p, -1) < n}

    def await_numbers(self, numbers: Mapping[Place, int], within_s: float) -> None:
        """Wait until a record with so great a number was seen of each partition. Raises AssertionError."""
        deadline = time.monotonic() + within_s
        while behind := self.behind(numbers):
            if time.monotonic() > deadline:
                wanted = {place: (found, numbers[place]) for place, found in behind.items()}
                raise AssertionError(f"not within {within_s:g} s; seen and wanted: {wanted}")
            with self._news:
                self._news.wait(_LOOK_S)

    def catch_up(self, within_s: float = 60.0) -> Logs:
        """Wait until all that the logs hold at the call was passed, open transactions included; return `logs`."""
        ends = eventually(self._ends, within_s=within_s)

        def is_through() -> bool:
            with self._news:
                self._check()
                behind = {p: (self._positions.get(p), end) for p, end in ends.items() if self._is_behind(p, end)}
            assert not behind, f"stands at, of: {behind}"
            return True

        eventually(is_through, within_s=within_s)
        return self.logs()

    def _ends(self) -> dict[Place, int]:
        """Return the ends of all partitions, after open transactions and markers, even of unread ones."""
        found = self._admin.topics.get_all([name for name in self._admin.topics.names() if self._wants(name)])
        places = [(name, partition) for name, topic in found.items() for partition in range(topic.partitions)]
        return self._admin.offsets.ends(places, read_committed=False)

    def _is_behind(self, place: Place, end: int) -> bool:
        return end > 0 and self._positions.get(place, 0) < end

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        looked_at = -_LOOK_S
        try:
            while not self._stop.is_set():
                if time.monotonic() - looked_at >= _LOOK_S:
                    self._look()
                    looked_at = time.monotonic()
                messages = self._consumer.consume(_BATCH, _POLL_S) if self._logs else []
                with self._news:
                    for message in messages:
                        self._take(message)
                    self._news.notify_all()
                self._stop.wait(0.0 if self._logs else _POLL_S)
        except Exception as error:
            with self._news:
                self._error = error
                self._news.notify_all()

    def _look(self) -> None:
        """Read on in what is read, and from the beginning in what there is besides."""
        try:
            topics = self._consumer.list_topics(timeout=_ASK_S).topics
        except KafkaException as error:
            if not is_unavailable(error.args[0]):
                raise
            return
        found = {(name, partition) for name, topic in topics.items() for partition in topic.partitions}
        new = sorted(place for place in found - self._logs.keys() if self._wants(place[0]))
        if new:
            try:
                starts = self._admin.offsets.starts(new)
            except (KafkaUnavailableError, KafkaRequestError):
                return  # a broker that has not heard of a topic yet ends a consumer that begins there at "beginning"
            self._consumer.incremental_assign([TopicPartition(*place, starts[place]) for place in new])
            with self._news:
                self._logs.update((place, {}) for place in new)

    def _take(self, message: Message) -> None:
        place, error = (message.topic(), message.partition()), message.error()
        if error is None:
            content = _content(message)
            self._logs[place][message.offset()] = content
            self._latest[place] = max(self._latest.get(place, -1), content.number)
            self._positions[place] = message.offset() + 1
        elif error.code() == KafkaError._PARTITION_EOF:
            self._positions[place] = message.offset()  # behind markers, and behind what was aborted
        elif not (is_unavailable(error) or error.code() in _PASSING):
            raise KafkaException(error)


def _content(message: Message) -> Content:
    headers = tuple(message.headers() or ())
    return Content(message.key(), message.value(), message.timestamp()[1], headers)


def _conf(bootstrap: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "group.id": "log-copy",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 50,
        "reconnect.backoff.max.ms": 1000,
    }
