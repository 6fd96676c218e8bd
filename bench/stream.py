"""Consume, produce and commit in one cluster: our stream task beside Kafka Streams and Spark Structured Streaming."""

import itertools
import os
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psutil
from confluent_kafka import Producer

from bench import peer, sink
from bench.family import family, processor_s, since
from bench.lines import FILLING, line
from bench.mirror_scene import check_whole
from bench.options import Options, say
from bench.ordered import Ordered, spark
from bench.result import Result, Row
from bench.scene import PATIENCE_S, SEED, Samples
from bench.side import SIDES
from bench.sink_jars import fetched, sink_jars
from bench.statistic import number, percentile
from bench.tail import ASK_EVERY_MS, Tail
from bench.watch import EVERY_S, Watcher
from fencepost.embedded import KAFKA_VERSION, EmbeddedKafka
from fencepost.embedded.home import ensure_home
from fencepost.embedded.java import find_java
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.group.transactions import Transaction, TransactionAdmin

OURS = {
    "connector.class": "TopicTransform",
    **{
        f"{direction}{kind}.converter": "org.apache.kafka.connect.converters.ByteArrayConverter"
        for direction in ("", "output.")
        for kind in ("key", "value")
    },
}
"""What copies a topic as it is."""
PARTITIONS = 4
_QUIET_S = 1.0
_WARM_UP = 15
_PAUSE_S = (0.05, 0.55)
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Scene:
    """Where a side plays: one that has been started."""

    kafka: EmbeddedKafka
    directory: Path
    count: int
    settings: Mapping[str, str]

    def topic(self, partitions: int) -> str:
        """Create one."""
        name = f"topic-{next(_numbers)}"
        admin = Admin({"bootstrap.servers": self.kafka.bootstrap_servers})
        admin.topics.create(name, partitions=partitions, replication=1)
        return name


class Peer:
    """What copies topics. A context manager."""

    pid: int

    @contextmanager
    def copy(self, source: str, target: str, settings: Mapping[str, str]) -> Iterator[None]:
        """Copy a topic from its beginning on, at least until it is left."""
        raise NotImplementedError


class Ours(Peer):
    """A worker with a connector for each copy."""

    def __init__(self, kafka: EmbeddedKafka, directory: Path) -> None:
        self._side = SIDES["fencepost"](kafka.bootstrap_servers, directory)

    def __enter__(self) -> "Ours":
        self._side.start()
        self.pid = self._side.pid
        return self

    def __exit__(self, *_: object) -> None:
        self._side.__exit__()

    @contextmanager
    def copy(self, source: str, target: str, settings: Mapping[str, str]) -> Iterator[None]:
        own = {key: value for key, value in settings.items() if key != "partitions"}
        self._side.create(target, {**OURS, "topics": source, "output.topic": target, **own})
        yield
        self._side.status(target)  # raises where it has failed
        self._side.delete(target)


class Told(Peer):
    """A process that is told what to copy."""

    def __init__(self, process: Ordered) -> None:
        self._process = process

    def __enter__(self) -> Self:
        self._process.__enter__()
        self.pid = self._process.pid
        return self

    def __exit__(self, *_: object) -> None:
        self._process.__exit__()


_STREAMS_JARS = (("org.apache.kafka", "kafka-streams", KAFKA_VERSION), ("org.rocksdb", "rocksdbjni", "10.1.3"))


class Streams(Told):
    """Kafka Streams in a JVM, with an application for each copy."""

    def __init__(self, kafka: EmbeddedKafka, directory: Path) -> None:
        jars = fetched("kafka-streams", _STREAMS_JARS)
        classpath = os.pathsep.join([*map(str, jars), ensure_home(find_java()).classpath])
        source = Path(__file__).with_name("java") / "CopyTopology.java"
        state = directory / f"streams-{next(_numbers)}"
        command = [str(find_java().path), *peer.JVM, "-cp", classpath, str(source), kafka.bootstrap_servers, str(state)]
        super().__init__(Ordered(command, directory / "streams.log"))

    @contextmanager
    def copy(self, source: str, target: str, settings: Mapping[str, str]) -> Iterator[None]:
        told = {"threads": "1", **settings}
        more = [f"{key}={value}" for key, value in told.items() if key != "threads"]
        self._process.tell(target, source, target, told["threads"], *more)
        yield
        self._process.tell("")


class Spark(Told):
    """Spark in a process, which copies what there is and is done."""

    def __init__(self, kafka: EmbeddedKafka, directory: Path) -> None:
        self._directory = directory
        arguments = [kafka.bootstrap_servers, str(len(os.sched_getaffinity(0))), ",".join(map(str, sink_jars()))]
        super().__init__(spark("bench.spark_copy", arguments, directory / "spark.log"))

    @contextmanager
    def copy(self, source: str, target: str, settings: Mapping[str, str]) -> Iterator[None]:
        self._process.tell(source, target, str(self._directory / f"checkpoint-{target}"))
        yield


_WIDE_ROUNDS, _WIDE_RECORDS = 5, 20


@dataclass(frozen=True)
class Case:
    """What is measured of the sides that have settings for it: so many records or samples, `full` or `quick`."""

    key: str
    full: int
    quick: int
    turns: int
    sides: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def _moved(peer_: Peer, scene: Scene) -> Samples:
    """Copy a topic as a warm-up, and then again."""
    source = sink.filled(scene.kafka.bootstrap_servers, PARTITIONS, scene.count)
    _move(peer_, scene, source)
    return _move(peer_, scene, source)


def _move(peer_: Peer, scene: Scene, source: str) -> Samples:
    target, before = scene.topic(PARTITIONS), processor_s(peer_.pid)
    with Watcher(scene.kafka.bootstrap_servers, [target], PARTITIONS) as watcher:
        with peer_.copy(source, target, scene.settings):
            done = watcher.until_quiet(scene.count, _QUIET_S, PATIENCE_S)
            spent = sum(since(before, processor_s(peer_.pid)).values())
    began_s = next(sample.at_s for sample in watcher.samples if sample.written)
    check_whole(scene.kafka.bootstrap_servers, target, scene.count)
    return {"": [scene.count / (done.at_s - began_s)], ", processor": [spent * 1e6 / scene.count]}


def latency(peer_: Peer, scene: Scene) -> Samples:
    """Send records at random moments to a quiet topic."""
    source, target = scene.topic(1), scene.topic(1)
    moments = random.Random(SEED)
    producer = Producer({"bootstrap.servers": scene.kafka.bootstrap_servers, "linger.ms": 0, "acks": "all"})
    taken_ms = []
    with ExitStack() as stack:
        tail = stack.enter_context(Tail(scene.kafka.bootstrap_servers, target))
        stack.enter_context(peer_.copy(source, target, scene.settings))
        for sequence in range(_WARM_UP + scene.count):
            sent_s = time.monotonic()
            producer.produce(source, line(sequence, FILLING, sink.WIDTH).encode())
            producer.poll(0)
            seen = tail.wait_for(sequence, PATIENCE_S)
            taken_ms.append((seen.at_s - sent_s) * 1000)
            time.sleep(moments.uniform(*_PAUSE_S))
        producer.flush(PATIENCE_S)
    return {"": taken_ms[_WARM_UP:]}


class OldWay(Peer):
    """A program with a producer for each partition; one for each copy."""

    def __init__(self, kafka: EmbeddedKafka, directory: Path) -> None:
        self._bootstrap, self._log = kafka.bootstrap_servers, directory / "old-way.log"

    def __enter__(self) -> "OldWay":
        return self

    def __exit__(self, *_: object) -> None: ...

    @contextmanager
    def copy(self, source: str, target: str, settings: Mapping[str, str]) -> Iterator[None]:
        arguments = [self._bootstrap, source, target, settings["partitions"]]
        with Ordered([sys.executable, "-m", "bench.old_way", *arguments], self._log) as program:
            self.pid = program.pid
            yield


PEERS: Mapping[str, type[Ours] | type[Streams] | type[Spark] | type[OldWay]] = {
    "fencepost": Ours,
    "streams": Streams,
    "spark": Spark,
    "old way": OldWay,
}


def _wide(peer_: Peer, scene: Scene) -> Samples:
    """Copy a topic of one partition, and of many, and see what takes part in that while it flows."""
    bootstrap, found = scene.kafka.bootstrap_servers, {}
    for partitions in (1, scene.count):
        source, target = scene.topic(partitions), scene.topic(1)
        before = {each.transactional_id for each in _transactions(bootstrap)}
        with peer_.copy(source, target, {**scene.settings, "partitions": str(partitions)}):
            producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "acks": "all"})
            with Watcher(bootstrap, [target]) as watcher:
                for _ in range(_WIDE_ROUNDS):
                    wanted = watcher.last.committed + partitions * _WIDE_RECORDS
                    for number in range(partitions * _WIDE_RECORDS):
                        value = line(number, FILLING, sink.WIDTH).encode()
                        producer.produce(source, value, partition=number % partitions)
                    producer.flush(PATIENCE_S)
                    watcher.until_quiet(wanted, _QUIET_S, PATIENCE_S)
            ids = {each.transactional_id for each in _transactions(bootstrap)} - before
            worker = _working(peer_.pid, scene.kafka)
            found[partitions] = (len(ids), len(_connections(worker, scene.kafka)), resident(worker))
    (_, _, one_mb), (ids_, connections, many_mb) = found.values()
    return {", producers": [ids_], ", connections": [connections], ", memory": [many_mb - one_mb]}


def _transactions(bootstrap: str) -> Sequence[Transaction]:
    admin = TransactionAdmin({"bootstrap.servers": bootstrap})
    try:
        return admin.list()
    finally:
        admin.close()


def _working(head: int, kafka: EmbeddedKafka) -> psutil.Process:
    """The process that has the most connections to the broker: one below, where there are any."""
    _, *below = family(head)
    return max(below or family(head), key=lambda process: len(_connections(process, kafka)))


def _connections(process: psutil.Process, kafka: EmbeddedKafka) -> list[Any]:
    port = int(kafka.bootstrap_servers.rpartition(":")[2])
    return [each for each in process.net_connections("tcp") if each.raddr and each.raddr.port == port]


def resident(process: psutil.Process) -> float:
    """Its resident size in MB."""
    return float(process.memory_info().rss / 1e6)


_ALL = "2 tasks, 4 threads, all cores"
_TUNED = {
    "tasks.max": "2",
    "slot.dedicated": "true",
    "transaction.boundary": "interval",
    "transaction.boundary.interval.ms": "500",
    "consumer.override.fetch.max.bytes": "1048576",
}
STREAMS_TUNED = {
    "threads": "4",
    "commit.interval.ms": "500",
    "consumer.max.poll.records": "20000",
    "producer.linger.ms": "5",
    "producer.batch.size": "131072",
}
CASES = {
    "one": (Case("one", 2_000_000, 200_000, 3, {"fencepost": {"tasks.max": "1"}, "streams": {}}), _moved),
    "all": (
        Case("all", 2_000_000, 200_000, 3, {"fencepost": _TUNED, "streams": STREAMS_TUNED, "spark": {}}),
        _moved,
    ),
    "latency": (
        Case("latency", 200, 25, 2, {"fencepost": {"tasks.max": "1"}, "streams": {"commit.interval.ms": "100"}}),
        latency,
    ),
    "wide": (Case("wide", 100, 20, 1, {"fencepost": {"tasks.max": "1"}, "old way": {}}), _wide),
}
_PROCESSOR = "processor time of all its processes for a million records"
ROWS = {
    "one": ("1 task or thread, defaults", "records/s", ("median",), "1 × or more"),
    "one, processor": (f"1 task or thread, defaults: {_PROCESSOR}", "s", ("median",), ""),
    "all": (f"{_ALL}; tuned", "records/s", ("median",), "1 × Streams', 1.2 × Spark's or more"),
    "all, processor": (f"{_ALL}; tuned: {_PROCESSOR}", "s", ("median",), ""),
    "wide, producers": ("1 task, 100 input partitions: producers", "", ("median",), "2 or less"),
    "wide, connections": ("1 task, 100 input partitions: connections to the broker", "", ("median",), ""),
    "wide, memory": (
        "1 task, 100 input partitions: resident memory beyond that of 1",
        "MB",
        ("median",),
        "0.1 × or less",
    ),
    "latency": ("a record sent at a random moment → its copy visible", "ms", ("p50", "p99"), "20 / 100 or less"),
}


def run(options: Options) -> Result:
    """Each case in turns between the sides."""
    found: dict[str, dict[str, list[float]]] = {row: {side: [] for side in PEERS} for row in ROWS}
    chosen = [pair for key, pair in CASES.items() if not options.cases or key in options.cases]
    with options.directory() as directory, EmbeddedKafka() as kafka:
        for case, measure in chosen:
            for turn in options.turns_of(case.turns):
                for name in _order(case, options, turn):
                    settings = {**case.sides[name], **(options.ours if name == "fencepost" else {})}
                    scene = Scene(kafka, directory, options.size(case.full, case.quick), settings)
                    with PEERS[name](kafka, directory) as peer_:
                        _note(case.key, name, measure(peer_, scene), found)
    rows = [
        Row(text, unit, found[key], names, unit == "records/s", reach)
        for key, (text, unit, names, reach) in ROWS.items()
    ]
    return Result("stream", "A stream task", _method(), _settings(), rows)


def _order(case: Case, options: Options, turn: int) -> list[str]:
    names = [name for name in case.sides if not options.only or name == options.only]
    return names if turn % 2 == 0 else names[::-1]


def _note(key: str, name: str, samples: Samples, found: dict[str, dict[str, list[float]]]) -> None:
    for what, values in samples.items():
        found[f"{key}{what}"][name] += values
        p99 = f", p99 {number(percentile(values, 99))}" if len(values) > 1 else ""
        say(f"stream {key}{what:12} {name:10} {number(percentile(values, 50))}{p99}")


def _settings() -> Mapping[str, Mapping[str, str]]:
    def told(settings: Mapping[str, str]) -> str:
        return ", ".join(f"{key}={value}" for key, value in settings.items()) or "defaults"

    return {key: {name: told(own) for name, own in case.sides.items()} for key, (case, _) in CASES.items()}


def _method() -> list[str]:
    case, _ = CASES["one"]
    return [
        f"A topic of {case.full:,} records of {sink.WIDTH} bytes in {PARTITIONS} partitions is copied to another one "
        "of the same cluster, as it is: by TopicTransform without transforms, by Kafka Streams (`exactly_once_v2`, "
        f"`stream(…).to(…)` on bytes, version {KAFKA_VERSION}), and by a Structured Streaming query of Spark, which is "
        "at least once. Once as a warm-up, and then again. The rate is all records, by the time from the first one in "
        f"the target's log until all are committed, asked every {EVERY_S * 1000:.0f} ms. Then each must be there once.",
        f"Latency: records are sent one by one, {_PAUSE_S[0]:g}-{_PAUSE_S[1]:g} s after the copy of the one before was "
        f"seen (seed {SEED}), to a topic that is quiet but for them. A read_committed consumer, which asks every "
        f"{ASK_EVERY_MS} ms, is handed the copy.",
        "Many partitions: a topic of one partition is copied, and one of many, beside a program with a producer for "
        "each partition (librdkafka's, in Python). Memory is that of the process that does it, in the second case less "
        "that in the first.",
    ]
