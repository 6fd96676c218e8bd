"""Where a case of the mirror plays: two brokers, workers beside the second one, and flows from the first to it."""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from bench import sink
from bench.background import Background
from bench.lines import FILLING, line, number_of
from bench.scene import Scene
from bench.side import SIDES, Side
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.admin.topics import TopicSpec
from fencepost.testing import eventually

WIDTH = sink.WIDTH
PARTITIONS = 4
_PACKAGE = "org.apache.kafka.connect.mirror."
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_TICK_S = 0.01
_CHECK_S = 120.0
_LOOK_S = 0.25

OWN: Mapping[str, Mapping[str, str]] = {
    "fencepost": {"connector.class": f"{_PACKAGE}MirrorSinkConnector", "transaction.producer": "true"},
    "connect": {
        "connector.class": f"{_PACKAGE}MirrorSourceConnector",
        "exactly.once.support": "required",
        **{f"{kind}.converter": _BYTES for kind in ("key", "value", "header")},
    },
}
"""What each side needs to copy records as they are, exactly once."""

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Batches:
    """How the records of a topic were put into batches by their producer."""

    size: int
    codec: str = "none"


@dataclass(frozen=True)
class MirrorScene(Scene):
    """`kafka` is the target, with the workers. What an alias names is there once: a flow of it begins at the start."""

    source: EmbeddedKafka
    settings: Mapping[str, str]
    """What every flow is told beside its clusters."""
    batches: Batches
    """What `filled` makes topics of."""

    @contextmanager
    def worker(self) -> Iterator[Side]:
        """One worker, alone in its cluster."""
        with SIDES[self.side](self.kafka.bootstrap_servers, self.directory) as worker:
            yield worker

    @contextmanager
    def flow(self, worker: Side, alias: str, topics: str) -> Iterator[float]:
        """Mirror topics (a pattern) as `<alias>.<topic>`, by a connector of that name; when (monotonic) it was asked
        for."""
        config = {
            **OWN[self.side],
            "topics": topics,
            "source.cluster.alias": alias,
            "source.cluster.bootstrap.servers": self.source.bootstrap_servers,
            "target.cluster.bootstrap.servers": self.kafka.bootstrap_servers,
            "source.consumer.isolation.level": "read_committed",
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            **self.settings,
        }
        posted_s = time.monotonic()
        worker.create(alias, config)
        yield posted_s
        worker.delete(alias)

    def alias(self) -> str:
        """Return one that was not there before."""
        return f"{self.side}{next(_numbers)}"

    def remote(self, alias: str, topic: str, partitions: int) -> str:
        """Create the topic of the target to which a flow mirrors this one."""
        name = f"{alias}.{topic}"
        Admin({"bootstrap.servers": self.kafka.bootstrap_servers}).topics.create(
            name, partitions=partitions, replication=1
        )
        return name

    def filled(self) -> str:
        """Return a topic of the source with the lines of the scene, written once."""
        size, codec = str(self.batches.size), self.batches.codec
        producer = {"linger.ms": "1000", "batch.size": size, "compression.type": codec}
        return sink.filled(self.source.bootstrap_servers, PARTITIONS, self.count, producer)

    def source_topic(self, name: str) -> str:
        """Create a topic of the source, of one partition."""
        Admin({"bootstrap.servers": self.source.bootstrap_servers}).topics.create(name, partitions=1, replication=1)
        return name

    def wide(self, topics: int) -> list[str]:
        """Create so many topics at the source, with a record in each partition, unless they are there."""
        names = [f"wide-{number}" for number in range(topics)]
        admin = Admin({"bootstrap.servers": self.source.bootstrap_servers})
        missing = set(names) - set(admin.topics.names())
        admin.topics.create_all({name: TopicSpec(PARTITIONS, 1) for name in missing})
        producer = Producer({"bootstrap.servers": self.source.bootstrap_servers})
        for name in sorted(missing):
            for partition in range(PARTITIONS):
                producer.produce(name, line(0, FILLING, WIDTH).encode(), partition=partition)
        producer.flush(_CHECK_S)
        admin.close()
        return names

    def await_flowing(self, remote: list[str], within_s: float) -> float:
        """Wait until each partition of these topics has a committed record; when (monotonic) that was."""
        admin = Admin({"bootstrap.servers": self.kafka.bootstrap_servers})
        places = [(name, partition) for name in remote for partition in range(PARTITIONS)]

        def is_flowing() -> bool:
            missing = set(remote) - set(admin.topics.names())
            assert not missing, f"{len(missing)} of {len(remote)} topics are not there"
            empty = sum(end == 0 for end in admin.offsets.ends(places, read_committed=True).values())
            assert not empty, f"{empty} of {len(places)} partitions are empty"
            return True

        eventually(is_flowing, within_s=within_s, every_s=_LOOK_S)
        return time.monotonic()


class Paced(Background):
    """Sends numbered records to a topic at a steady rate, in a thread; a context manager."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        per_s: int,
        value: Callable[[int], bytes] = lambda number: line(number, FILLING, WIDTH).encode(),
    ) -> None:
        super().__init__()
        self._value = value
        self.sent_s: list[float] = []
        self._topic = topic
        self._per_s = per_s
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all"})

    def _run(self) -> None:
        began_s = time.monotonic()
        while not self._stop.wait(_TICK_S):
            while len(self.sent_s) < (time.monotonic() - began_s) * self._per_s:
                value = self._value(len(self.sent_s))
                self.sent_s.append(time.monotonic())
                self._producer.produce(self._topic, value)
            self._producer.poll(0)
        self._producer.flush(_CHECK_S)


def line_number(message: Message) -> int:
    """Return the number of the line that a record is."""
    return number_of(message.value() or b"")


def check_whole(
    bootstrap: str, topic: str, records: int, partitions: int = PARTITIONS, of: Callable[[Message], int] = line_number
) -> None:
    """Raise ValueError unless the committed records of a topic are those of the numbers from 0 on, each once."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False,
        "isolation.level": "read_committed", "enable.partition.eof": True,
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found, ended, deadline_s = bytearray(records), set[int](), time.monotonic() + _CHECK_S
    try:
        while len(ended) < partitions:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"the end of {topic} was not reached within {_CHECK_S:.0f} s")
            for message in consumer.consume(10_000, 0.2):
                if message.error() is not None:
                    ended.add(message.partition())
                else:
                    found[of(message)] += 1
    finally:
        consumer.close()
    wrong = records - found.count(1)
    if wrong:
        raise ValueError(f"{wrong} of {records} are not once in {topic}")
