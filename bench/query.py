"""Streaming queries of Spark between topics, exactly once, beside Spark's own source and sink, Kafka Streams,
Flink SQL and Quix Streams."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from bench import sink
from bench.family import processor_s, since
from bench.mirror_scene import check_whole
from bench.options import Options, say
from bench.ordered import spark
from bench.query_peers import CONNECTOR, Flink, NoEnvironmentError, Quix, pinned
from bench.result import Result, Row
from bench.scene import PATIENCE_S, Samples
from bench.sink_jars import JARS, sink_jars
from bench.statistic import number, percentile
from bench.stream import PARTITIONS, STREAMS_TUNED, Case, Peer, Scene, Streams, Told, latency
from bench.watch import EVERY_S, Watcher
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin

OURS, THEIRS, BOTH, STREAMS, FLINK, QUIX = "fencepost", "spark", "spark sink", "streams", "flink", "quix"
_SIDES = (OURS, THEIRS, BOTH, STREAMS, FLINK, QUIX)
_FORMATS = {OURS: ("fencepost", "fencepost"), THEIRS: ("kafka", "kafka"), BOTH: ("fencepost", "kafka")}
_TIMES = 3
"""How often each key is counted."""
_QUIET_S = 3.0
_BLOCK = 10_000


class Queries(Told):
    """A Spark, with a query for each copy, by one pair of source and sink."""

    def __init__(self, kafka: EmbeddedKafka, directory: Path, pair: str) -> None:
        self._directory, self._formats = directory, _FORMATS[pair]
        arguments = [kafka.bootstrap_servers, str(len(os.sched_getaffinity(0))), ",".join(map(str, sink_jars()))]
        super().__init__(spark("bench.spark_query", arguments, directory / "spark-query.log"))

    @contextmanager
    def copy(self, source: str, target: str, settings: Mapping[str, str]) -> Iterator[None]:
        checkpoint = str(self._directory / f"checkpoint-{target}")
        self._process.tell(*self._formats, settings["what"], source, target, checkpoint)
        yield
        self._process.tell("")


_COMMIT_MS, _SHORT_MS = "500", "100"
_OTHERS = (FLINK, QUIX)
_ALL: Mapping[str, Mapping[str, str]] = {
    **{side: {"what": "project"} for side in _FORMATS},
    FLINK: {"what": "project", "interval.ms": _COMMIT_MS},
    QUIX: {"what": "project", "interval.ms": _COMMIT_MS, "part": "3"},
}
"""`part`: of how many parts of the records a side has one."""
_FOLLOWED: Mapping[str, Mapping[str, str]] = {
    **{side: {"what": "follow"} for side in _FORMATS},
    **{side: {"what": "follow", "interval.ms": _SHORT_MS} for side in _OTHERS},
}
_COUNTED: Mapping[str, Mapping[str, str]] = {
    OURS: {"what": "count"},
    STREAMS: {**STREAMS_TUNED, "count": "yes"},
    THEIRS: {"what": "count"},
    FLINK: {"what": "count", "interval.ms": _COMMIT_MS},
    QUIX: {"what": "count", "interval.ms": _COMMIT_MS, "part": "3"},
}
_PROCESSOR, _BROKER = "processor time of all processes of a side", "processor time of the broker"
_PROJECTED, _KEYS = "a projection of all that is there", "count by key"
_MILLION = "for a million records"
ROWS = {
    "project": (_PROJECTED, "records/s", ("median",), "1.5 × or more"),
    "project, processor": (f"{_PROJECTED}: {_PROCESSOR} {_MILLION}", "s", ("median",), "0.75 × Spark's sink's or less"),
    "project, broker": (f"{_PROJECTED}: {_BROKER} {_MILLION}", "s", ("median",), "0.5 × or less"),
    "latency": ("a record sent at a random moment → visible", "ms", ("p50", "p99"), "p50: Spark's sink + 50 ms"),
    "count": (_KEYS, "records/s", ("median",), "1 × Kafka Streams or more"),
    "count, processor": (f"{_KEYS}: {_PROCESSOR} {_MILLION}", "s", ("median",), ""),
    "count, broker": (f"{_KEYS}: {_BROKER} {_MILLION}", "s", ("median",), ""),
}


def run(options: Options) -> Result:
    """Each case in turns between the sides."""
    found: dict[str, dict[str, list[float]]] = {row: {side: [] for side in _SIDES} for row in ROWS}
    absent: list[str] = []
    chosen = [pair for key, pair in CASES.items() if not options.cases or key in options.cases]
    with options.directory() as directory, EmbeddedKafka() as kafka:
        for case, measure in chosen:
            for turn in options.turns_of(case.turns):
                names = [name for name in case.sides if not options.only or name == options.only]
                for name in names if turn % 2 == 0 else names[::-1]:
                    settings = case.sides[name]
                    count = options.size(case.full, case.quick) // int(settings.get("part", "1"))
                    if (side := _peer(name, kafka, directory)) is None:
                        absent.append(name)
                        continue
                    with side as peer:
                        _note(case.key, name, measure(peer, Scene(kafka, directory, count, settings)), found)
    rows = [
        Row(text, unit, found[key], names, unit == "records/s", reach)
        for key, (text, unit, names, reach) in ROWS.items()
    ]
    return Result("query", "Streaming queries", _method(), _settings(absent), rows)


def _peer(name: str, kafka: EmbeddedKafka, directory: Path) -> Told | None:
    """Return a side that has started; None, with a message that has the reason, if it cannot be installed."""
    others: Mapping[str, type[Streams] | type[Flink] | type[Quix]] = {STREAMS: Streams, FLINK: Flink, QUIX: Quix}
    try:
        return others[name](kafka, directory) if name in others else Queries(kafka, directory, name)
    except NoEnvironmentError as error:
        say(f"query: {name} is left out, it cannot be installed: {error}")
        return None


def _project(peer: Peer, scene: Scene) -> Samples:
    """Write what a topic has to another one, once as a warm-up, and then again."""
    source = sink.filled(scene.kafka.bootstrap_servers, PARTITIONS, scene.count)
    for _ in range(2):
        target, samples = _moved(peer, scene, source, scene.count, scene.count)
        check_whole(scene.kafka.bootstrap_servers, target, scene.count)
    return samples


def _count(peer: Peer, scene: Scene) -> Samples:
    """Count the records of each key."""
    bootstrap = scene.kafka.bootstrap_servers
    target, samples = _moved(peer, scene, _filled(bootstrap, scene.count), scene.count * _TIMES, scene.count)
    _check_counts(bootstrap, target, scene.count)
    return samples


def _moved(peer: Peer, scene: Scene, source: str, records: int, least: int) -> tuple[str, Samples]:
    """Let so many records be read, until at least `least` are committed and no more come. Returns their topic, too."""
    target = scene.topic(PARTITIONS)
    before, broker = processor_s(peer.pid), processor_s(scene.kafka.pid)
    with Watcher(scene.kafka.bootstrap_servers, [target], PARTITIONS) as watcher:
        began_s = time.monotonic()
        with peer.copy(source, target, scene.settings):
            done = watcher.until_quiet(least, _QUIET_S, PATIENCE_S)
            spent = sum(since(before, processor_s(peer.pid)).values())
            of_broker = sum(since(broker, processor_s(scene.kafka.pid)).values())
    return target, {
        "": [records / (done.at_s - began_s)],
        ", processor": [spent * 1e6 / records],
        ", broker": [of_broker * 1e6 / records],
    }


def _filled(bootstrap: str, keys: int) -> str:
    """Return a topic in which each of so many keys is a few times, always in the same partition; written once."""
    topic = f"keys-{keys}"
    admin = Admin({"bootstrap.servers": bootstrap})
    if admin.topics.get(topic) is None:
        admin.topics.create(topic, partitions=PARTITIONS, replication=1)
        producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 20, "acks": "all", "enable.idempotence": True}
        )
        for at in range(keys * _TIMES):
            producer.produce(topic, b"%d" % at, b"%012d" % (at % keys), partition=at % keys % PARTITIONS)
            if at % _BLOCK == 0:
                producer.flush(PATIENCE_S)
        producer.flush(PATIENCE_S)
    return topic


def _check_counts(bootstrap: str, topic: str, keys: int) -> None:
    """Raise ValueError unless the last count of each key is right."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False,
        "isolation.level": "read_committed", "enable.partition.eof": True,
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    counts, ended = bytearray(keys), set[int]()
    while len(ended) < PARTITIONS:
        for message in consumer.consume(_BLOCK, 0.2):
            if message.error() is not None:
                ended.add(message.partition())
            else:
                counts[int(message.key())] = int(message.value())
    consumer.close()
    if wrong := keys - counts.count(_TIMES):
        raise ValueError(f"{wrong} of {keys} keys have not been counted {_TIMES} times in {topic}")


def _note(key: str, name: str, samples: Samples, found: dict[str, dict[str, list[float]]]) -> None:
    for what, values in samples.items():
        found[f"{key}{what}"][name] += values
        p99 = f", p99 {number(percentile(values, 99))}" if len(values) > 1 else ""
        say(f"query {key}{what:12} {name:10} {number(percentile(values, 50))}{p99}")


CASES = {
    "project": (Case("project", 3_000_000, 300_000, 1, _ALL), _project),
    "latency": (Case("latency", 60, 20, 1, _FOLLOWED), latency),
    "count": (Case("count", 1_000_000, 100_000, 1, _COUNTED), _count),
}


def _settings(absent: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    jars = ", ".join(f"{module} {revision}" for _, module, revision in JARS)
    tuned = ", ".join(f"{key}={value}" for key, value in STREAMS_TUNED.items())
    spark_ = "local[cores], as many shuffle partitions as cores, the rest at defaults"
    _, connector, revision = CONNECTOR
    pairs = {
        OURS: f'readStream and writeStream by format("fencepost"), exactly once; {spark_}',
        THEIRS: f'both by format("kafka"), at least once; {spark_}; {jars}',
        BOTH: f"our source, Spark's sink, at least once; {spark_}",
        STREAMS: f"exactly_once_v2, RocksDB; {tuned}",
        FLINK: (
            f"apache-flink {pinned(FLINK, 'apache-flink')}, {connector} {revision}, SQL in streaming mode, state on "
            "the heap, sink.delivery-guarantee=exactly-once, a checkpoint, with which it commits, every "
            f"{_COMMIT_MS} ms (for latency {_SHORT_MS} ms); a cluster in one JVM, as parallel as there are cores; "
            "pipeline.object-reuse=true, mini-batches of 500 ms or 50000 records, linger.ms=5, batch.size=131072 "
            "(for latency without the first two)"
        ),
        QUIX: (
            f"quixstreams {pinned(QUIX, 'quixstreams')}, processing_guarantee=exactly-once, RocksDB, a process for "
            f"each core, commit_interval {_COMMIT_MS} ms (for latency {_SHORT_MS} ms), linger.ms=50 (for latency 0), "
            "batch.size=131072"
        ),
    }
    return {"pairs": {**pairs, **dict.fromkeys(absent, "absent: it could not be installed")}}


def _method() -> list[str]:
    (project, _), (followed, _), (counted, _) = CASES.values()
    return [
        f"A topic of {project.full:,} records of {sink.WIDTH} bytes in {PARTITIONS} partitions is written in capitals "
        "to another one, with the trigger availableNow, once as a warm-up, and then again. The rate is all records, by "
        "the time from making the query until all are committed, asked every "
        f"{EVERY_S * 1000:.0f} ms. Then each must be there once. Flink reads as far as the topic goes when the query "
        "begins. Quix Streams has no query that ends, and has new processes for each, whose start is in the time; here "
        "and in the count it is given a third of the records, to keep the run short.",
        f"Latency: the same query with a trigger of 100 ms, and {followed.full} records that are sent one by one at "
        "random moments, each once the one before was seen; the time is until a read_committed consumer has it. "
        "Flink commits with a checkpoint and Quix Streams at its interval of commits, every "
        f"{_SHORT_MS} ms here: exactly once, that is what their latency is made of.",
        f"Count: {counted.full:,} keys, each {_TIMES} times, are counted with availableNow and the output mode update "
        "(ours by foreachBatch, as Spark takes this mode for its own sinks only), "
        "by Kafka Streams (`groupByKey().count()`), by Flink (`GROUP BY`, to upsert-kafka) and by Quix Streams (a "
        "stateful `apply`, which writes a count for each record), from the start of the query or of the application, "
        "without a warm-up. Then the last count of each key must be right.",
    ]
