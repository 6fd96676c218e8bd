"""Applications that write at a source: transactions, a third of them aborted, tombstones, headers, gaps."""

import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import partial
from typing import Any, Self

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import is_unavailable
from fencepost.testing import eventually
from support.mirror.log_copy import NUMBER, Content, Place

_ABORTED_SHARE = 0.3
_PLAIN_SHARE = 0.15
_TOMBSTONE_SHARE = 0.1
_KEYLESS_SHARE = 0.1
_HEADER_SHARE = 0.4
_KEYS = 7
_LONGEST = 12
_MOST_AT_ONCE = 20
_PATIENCE_S = 180.0
_FEED_EVERY_S = 0.05
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_COMPACTED: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.001",
    "delete.retention.ms": "86400000",
}
NOT_MIRRORED = ", ".join(_COMPACTED)
"""Configs that the target must not take over: it shall keep all that comes."""

QUICK_TO_COMPACT = {"log.cleaner.backoff.ms": "500"}
"""With this a broker compacts while a test runs."""


@dataclass(frozen=True)
class Written:
    """A topic of the workload. In a compacted one a few keys come again and again."""

    name: str
    partitions: int
    is_compacted: bool = False
    empty: frozenset[int] = frozenset()

    def places(self) -> list[Place]:
        return [(self.name, n) for n in range(self.partitions) if n not in self.empty]


class Outcome(Enum):
    """How a transaction of some records ended."""

    COMMITTED = auto()
    ABORTED = auto()
    UNKNOWN = auto()  # the source's log says


Records = Sequence[tuple[Place, Content]]


@dataclass
class Given:
    """What the workload has committed, or may have, in the order of each partition; how often each outcome came.

    `committed` is what it has certainly.
    """

    records: dict[Place, list[Content]] = field(default_factory=dict)
    committed: dict[Place, set[Content]] = field(default_factory=dict)
    outcomes: Counter[Outcome] = field(default_factory=Counter)

    def note(self, records: Records, outcome: Outcome) -> None:
        self.outcomes[outcome] += 1
        if outcome is not Outcome.ABORTED:
            for place, record in records:
                self.records.setdefault(place, []).append(record)
                if outcome is Outcome.COMMITTED:
                    self.committed.setdefault(place, set()).add(record)


class Workload:
    """Writes to the topics of a source as `seed` says; `feeding` does so in a thread. A context manager.

    Each record has the number of its partition's next in a header; numbers of what was aborted are left out.
    """

    def __init__(self, bootstrap: str, seed: int, topics: Sequence[Written], *, replication: int = 1) -> None:
        self.bootstrap = bootstrap
        self._replication = replication
        self.given = Given()
        self.topics: list[Written] = []
        self._drawn = random.Random(seed)
        self._admin = Admin({"bootstrap.servers": bootstrap})
        self._raw = AdminClient({"bootstrap.servers": bootstrap})
        self._id = uuid.uuid4().hex[:8]
        self._numbers: dict[Place, int] = {}
        self._lock = threading.Lock()
        self._producers: dict[str, Producer] = {}
        self._grown: list[str] = []  # topics of which producers have to learn that they have more partitions
        self._error: Exception | None = None
        for topic in topics:
            self.add_topic(topic)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._producers.clear()
        self._admin.close()

    def add_topic(self, topic: Written) -> None:
        """Create a topic and write to it from now on."""
        configs = _COMPACTED if topic.is_compacted else {}
        self._admin.topics.create(
            topic.name, partitions=topic.partitions, replication=self._replication, configs=configs
        )
        with self._lock:
            self.topics.append(topic)

    def add_partitions(self, name: str, count: int) -> None:
        """Let a topic have so many partitions, and write to them from now on."""
        self._raw.create_partitions([NewPartitions(name, count)])[name].result(_PATIENCE_S)
        # Brokers hear of it a moment after the controller has answered.
        eventually(lambda: len(self._raw.list_topics(name, 5).topics[name].partitions) == count, within_s=_PATIENCE_S)
        with self._lock:
            self._grown.append(name)
            self.topics = [replace(each, partitions=count) if each.name == name else each for each in self.topics]

    def check(self) -> None:
        """Raise the error of the thread that feeds, if it has one."""
        if self._error is not None:
            raise self._error

    def front(self) -> dict[Place, int]:
        """Return, for each partition that is written to, the number of the next record."""
        with self._lock:
            return {place: self._numbers.get(place, 0) + 1 for topic in self.topics for place in topic.places()}

    def write(self, times: int = 1) -> None:
        """Write so many transactions, or what takes their place, one after the other."""
        for _ in range(times):
            records = self._next()
            self._learn_of_partitions()
            codec = self._drawn.choice(_CODECS)
            if self._drawn.random() < _PLAIN_SHARE:
                outcome = self._write_plainly(codec, records)
            else:
                outcome = self._transact(codec, records, is_committed=self._drawn.random() >= _ABORTED_SHARE)
            self.given.note(records, outcome)

    def write_everywhere(self) -> None:
        """Write a record to each partition, in one committed transaction."""
        records = [(place, self._content(place)) for place in self.front()]
        self.given.note(records, self._transact(_CODECS[0], records, is_committed=True))

    @contextmanager
    def feeding(self, transactions_per_s: float) -> Iterator[None]:
        """Write at this rate in a thread; raises its error at the end, where it has one."""
        stop = threading.Event()

        def feed() -> None:
            began, written = time.monotonic(), 0
            try:
                while not stop.wait(_FEED_EVERY_S):
                    due = min(int((time.monotonic() - began) * transactions_per_s) - written, _MOST_AT_ONCE)
                    self.write(due)
                    written += due
            except Exception as error:
                self._error = error

        feeding = threading.Thread(target=feed, name="workload")
        feeding.start()
        try:
            yield
        finally:
            stop.set()
            feeding.join()
        self.check()

    def _learn_of_partitions(self) -> None:
        """Have producers ask at once, which by themselves would in minutes."""
        while self._grown:
            for producer in self._producers.values():
                _retry(partial(producer.list_topics, self._grown[0]))
            del self._grown[0]

    def _next(self) -> Records:
        places = list(self.front())
        chosen = self._drawn.sample(places, min(self._drawn.randint(1, 3), len(places)))
        wanted = [self._drawn.choice(chosen) for _ in range(self._drawn.randint(1, _LONGEST))]
        return [(place, self._content(place)) for place in wanted]

    def _content(self, place: Place) -> Content:
        drawn = self._drawn
        with self._lock:
            self._numbers[place] = number = self._numbers.get(place, 0) + 1
            is_compacted = any(topic.name == place[0] and topic.is_compacted for topic in self.topics)
        key = b"k%d" % drawn.randrange(_KEYS if is_compacted else 10_000)
        if not is_compacted and drawn.random() < _KEYLESS_SHARE:
            key = None
        value = None if key and drawn.random() < _TOMBSTONE_SHARE else drawn.randbytes(drawn.randrange(200))
        headers = [(NUMBER, b"%d" % number)]
        if drawn.random() < _HEADER_SHARE:
            headers += [("same", None), ("same", drawn.randbytes(5)), ("ünïcode", b"")]
        timestamp_ms = time.time_ns() // 1_000_000 - drawn.randrange(60_000)
        return Content(key, value, timestamp_ms, tuple(headers))

    # how it gets there

    def _transact(self, codec: str, records: Records, *, is_committed: bool) -> Outcome:
        producer = self._producer(codec)
        try:
            producer.begin_transaction()
            self._produce(producer, records)
            producer.flush(_PATIENCE_S)
            return _ended(producer, is_committed=is_committed)
        except KafkaException:
            del self._producers[codec]  # the next of this id ends whatever this one has left
            return Outcome.UNKNOWN

    def _write_plainly(self, codec: str, records: Records) -> Outcome:
        producer = self._producers.setdefault(f"plain {codec}", Producer({**self._conf(codec), "linger.ms": 1}))
        failed: list[Any] = []
        self._produce(producer, records, lambda error, _: failed.append(error) if error else None)
        left = producer.flush(_PATIENCE_S)
        return Outcome.UNKNOWN if failed or left else Outcome.COMMITTED

    def _produce(self, producer: Producer, records: Records, report: Any = None) -> None:
        for (topic, partition), record in records:
            producer.produce(
                topic, record.value, record.key, partition,
                timestamp=record.timestamp_ms, headers=list(record.headers), on_delivery=report,
            )  # fmt: skip

    def _producer(self, codec: str) -> Producer:
        if codec not in self._producers:
            producer = Producer({**self._conf(codec), "transactional.id": f"{self._id}-{codec}"})
            _retry(producer.init_transactions)
            self._producers[codec] = producer
        return self._producers[codec]

    def _conf(self, codec: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap,
            "compression.type": codec,
            "enable.idempotence": True,
            "reconnect.backoff.max.ms": 1000,
            "log_level": 0,
        }


def _ended(producer: Producer, *, is_committed: bool) -> Outcome:
    """Return how a transaction ended that should end so. Raises KafkaException if that is unknown."""
    if is_committed:
        try:
            _retry(producer.commit_transaction)
            return Outcome.COMMITTED
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
    _retry(producer.abort_transaction)
    return Outcome.ABORTED


def _retry(ask: Callable[[float], Any]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            ask(5.0)
            return
        except KafkaException as error:
            why = error.args[0]
            if not (why.retriable() or is_unavailable(why)) or time.monotonic() > deadline:
                raise
