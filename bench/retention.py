"""A pipeline whose topic empties itself (KIP-762) beside one whose topic keeps everything; and what a round costs."""

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.family import processor_s, since
from bench.options import Options, say
from bench.result import Result, Row
from bench.side import SIDES, Side
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin

EMPTIED, KEPT = "emptied", "kept"
_FLUSH_S = 5.0
_SEGMENT_BYTES = 16 << 20
_SAMPLE_S = 0.25
_MB = 1e6
_TOPICS, _PARTITIONS, _SINKS, _GROUPS = 200, 10, 50, 300
_IDLE_S = 60.0
_CHECK_S, _FILE_DELAY_S = 5.0, 1.0
_BROKER = {"log.retention.check.interval.ms": f"{_CHECK_S * 1000:.0f}", "log.initial.task.delay.ms": "1000"}
_ON = {"delete.committed.enabled": "true", "delete.committed.topics": "carried.*"}
_SOURCE = {"connector.class": "DatagenConnector", "rows.per.second": "0", "tasks.max": "1"}


@dataclass
class Run:
    """What one side has done."""

    rate: float = 0.0
    processor_per_million: float = 0.0
    samples: "list[Sample]" = field(default_factory=list)

    @property
    def held(self) -> float:
        """Offsets in the topic at most, by what arrives in one flush interval."""
        return max(sample.held for sample in self.samples) / (self.rate * _FLUSH_S)

    @property
    def megabytes(self) -> list[float]:
        return [sample.megabytes for sample in self.samples]

    def __str__(self) -> str:
        """Say what it takes to judge whether it goes on like this: what each quarter of the time has held at most."""
        most = [max(quarter, key=lambda sample: sample.held).held for quarter in quarters(self.samples)]
        held = ", ".join(f"{each / (self.rate * _FLUSH_S):.2f}" for each in most)
        disk = ", ".join(f"{max(each.megabytes for each in quarter):.0f}" for quarter in quarters(self.samples))
        return (
            f"{self.rate:9,.0f} records/s; by quarter: held at most {held} intervals, on disk at most {disk} MB; at "
            f"most {self.held_by_arrivals():.2f} × what had just arrived in an interval; longest without a deletion "
            f"{longest_without_deletion_s(self.samples):.1f} s; at the end {self.samples[-1].megabytes:.0f} MB"
        )

    def held_by_arrivals(self) -> float:
        """Offsets in the topic at most, by what arrived in the flush interval before that moment: a burst is no lag."""
        found = []
        for late in self.samples:
            early = [each for each in self.samples if each.at_s <= late.at_s - _FLUSH_S]
            if early and late.end > early[-1].end:
                found.append(late.held / (late.end - early[-1].end))
        return max(found, default=0.0)


@dataclass(frozen=True)
class Sample:
    """What the topic holds at a moment: where its logs begin and end, all together."""

    at_s: float
    start: int
    end: int
    megabytes: float

    @property
    def held(self) -> int:
        return self.end - self.start


def quarters(samples: Sequence[Sample]) -> list[Sequence[Sample]]:
    """Divide by four, in order; there are at least four."""
    cuts = [len(samples) * each // 4 for each in range(5)]
    return [samples[begin:end] for begin, end in itertools.pairwise(cuts)]


def longest_without_deletion_s(samples: Sequence[Sample]) -> float:
    """Return the longest time in which no log began later, that without an end included."""
    moved = [samples[0].at_s]
    moved += [late.at_s for early, late in itertools.pairwise(samples) if late.start > early.start]
    return max(late - early for early, late in itertools.pairwise([*moved, samples[-1].at_s]))


def run(options: Options) -> Result:
    """Run the pipeline on both sides in turns, then measure rounds at scale."""
    seconds = options.size(120, 30)
    result = Result("retention", "Topics that empty themselves", _method(seconds), {})
    runs: dict[str, list[Run]] = {EMPTIED: [], KEPT: []}
    with options.directory() as directory:
        for turn in options.turns_of(2) if _is_wanted(options, "pipeline") else ():
            for name in (EMPTIED, KEPT) if turn % 2 == 0 else (KEPT, EMPTIED):
                runs[name].append(done := _pipeline(name, directory / f"{name}-{turn}", seconds))
                say(f"{name:8} {done}")
        most = {name: [max(run.megabytes) for run in each] for name, each in runs.items()}
        last = {name: [run.megabytes[-1] for run in each] for name, each in runs.items()}
        held = "most offsets in the topic, by what arrives in a flush interval"
        result.rows = [
            Row("source to sink", "records/s", _samples(runs, "rate"), is_more_better=True, reach="0.97 × or more"),
            Row("source to sink: processor time for a million records", "s", _samples(runs, "processor_per_million")),
            Row(held, "×", _samples(runs, "held"), reach="2 or less"),
            Row("size of the topic on disk: largest", "MB", most),
            Row("size of the topic on disk: at the end", "MB", last),
        ]
        if _is_wanted(options, "round"):
            result.rows += _rounds(directory / "rounds")
    return result


def _is_wanted(options: Options, case: str) -> bool:
    return not options.cases or case in options.cases


def _samples(runs: Mapping[str, list[Run]], what: str) -> dict[str, list[float]]:
    return {name: [getattr(run, what) for run in each] for name, each in runs.items()}


@contextmanager
def _worker(directory: Path, settings: Mapping[str, str]) -> Iterator[tuple[EmbeddedKafka, Side]]:
    directory.mkdir()
    with EmbeddedKafka(dir=directory / "kafka", properties=_BROKER) as kafka:
        with SIDES["fencepost"](kafka.bootstrap_servers, directory, settings) as worker:
            yield kafka, worker


def _pipeline(name: str, directory: Path, seconds: float) -> Run:
    """Move made-up rows through a topic of four partitions into nothing, for so long."""
    settings = {"offset.flush.interval.ms": str(int(_FLUSH_S * 1000)), **(_ON if name == EMPTIED else {})}
    with _worker(directory, settings) as (kafka, worker):
        admin, topic = Admin({"bootstrap.servers": kafka.bootstrap_servers}), "carried"
        configs = {"segment.bytes": str(_SEGMENT_BYTES), "file.delete.delay.ms": f"{_FILE_DELAY_S * 1000:.0f}"}
        admin.topics.create(topic, partitions=4, replication=1, configs=configs)
        worker.create("sink", {"connector.class": "FileStreamSink", "topics": topic, "file": "/dev/null"})
        worker.create("source", {**_SOURCE, "topic": topic})
        places = [(topic, partition) for partition in range(4)]
        _await_emptied(admin, places, is_awaited=name == EMPTIED)
        done, began_s = Run(), time.monotonic()
        before, ends = processor_s(worker.pid), sum(admin.offsets.ends(places, read_committed=False).values())
        first = ends
        while time.monotonic() < began_s + seconds:
            time.sleep(_SAMPLE_S)
            starts = sum(admin.offsets.starts(places).values())
            ends = sum(admin.offsets.ends(places, read_committed=False).values())
            size = _size(directory / "kafka", topic)
            done.samples.append(Sample(time.monotonic() - began_s, starts, ends, size))
        took_s = time.monotonic() - began_s
        done.rate = (ends - first) / took_s
        done.processor_per_million = sum(since(before, processor_s(worker.pid)).values()) * 1e6 / max(1, ends - first)
        return done


def _await_emptied(admin: Admin, places: list[tuple[str, int]], *, is_awaited: bool) -> None:
    """Wait until all of it runs: both sides for as long, the one that empties until it has done so once."""
    deadline_s, began_s = time.monotonic() + 120, time.monotonic()
    while time.monotonic() < began_s + 20 or (is_awaited and not any(admin.offsets.starts(places).values())):
        if time.monotonic() > deadline_s:
            raise ValueError("nothing was deleted in 120 s")
        time.sleep(_SAMPLE_S)


def _size(directory: Path, topic: str) -> float:
    found = 0
    for file in directory.rglob(f"{topic}-*/*"):
        try:
            found += file.stat().st_blocks * 512
        except FileNotFoundError:
            continue  # deleted meanwhile
    return found / _MB


def _rounds(directory: Path) -> list[Row]:
    """Measure rounds over many topics, sinks and outside groups, and what they cost when nothing is to be done."""
    settings = {**_ON, "offset.flush.interval.ms": "60000"}
    with _worker(directory, settings) as (kafka, worker):
        admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
        _fill(kafka.bootstrap_servers, admin)
        for number in range(_SINKS):
            config = {"connector.class": "FileStreamSink", "topics": ",".join(_of_sink(number)), "file": "/dev/null"}
            answer = worker.rest.post(
                "/connectors", json={"name": f"s{number}", "config": config, "initial_state": "STOPPED"}
            )
            answer.raise_for_status()
        took = []
        for _ in range(10):
            began_s = time.monotonic()
            told = worker.rest.get("/retention?dry=true").json()
            took.append(time.monotonic() - began_s)
            refused = [topic for topic in told["topics"] if topic["refused"]]
            if told["error"] or refused or len(told["topics"]) != _TOPICS:
                raise ValueError(f"{told['error']}, {len(told['topics'])} topics, refused: {refused[:1]}")
        time.sleep(_IDLE_S + 10)  # what there was is deleted by the first round
        before, began_s = processor_s(worker.pid), time.monotonic()
        time.sleep(3 * _IDLE_S)
        idle = since(before, processor_s(worker.pid)).get("worker", 0.0) / (time.monotonic() - began_s)
        requests = worker.rest.get("/retention").json()["requests"]
    name = f"{_TOPICS} topics of {_PARTITIONS} partitions, {_SINKS} sinks, {_GROUPS} outside groups"
    return [
        Row(f"a round over {name}", "s", {EMPTIED: took}, reach="5 or less"),
        Row("the same: requests of a round, to one broker", "requests", {EMPTIED: [float(requests)]}),
        Row(
            "the same: the worker's process while nothing is to be done",
            "cores",
            {EMPTIED: [idle]},
            reach="0.1 or less",
        ),
    ]


def _of_sink(number: int) -> list[str]:
    share = _TOPICS // _SINKS
    return [f"carried-{each}" for each in range(number * share, (number + 1) * share)]


def _fill(bootstrap: str, admin: Admin) -> None:
    """Make topics, records, and the offsets of the sinks' groups and of others."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    admin.topics.create("other", partitions=_PARTITIONS, replication=1)
    for number in range(_TOPICS):
        admin.topics.create(f"carried-{number}", partitions=_PARTITIONS, replication=1)
        for partition in range(_PARTITIONS):
            for _ in range(5):
                producer.produce(f"carried-{number}", b"x" * 100, partition=partition)
        producer.poll(0)
    producer.flush(60)
    groups = {f"connect-s{number}": _of_sink(number) for number in range(_SINKS)}
    groups |= {f"outside-{number}": ["other"] for number in range(_GROUPS)}
    for group, topics in groups.items():
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        at = [TopicPartition(topic, partition, 5) for topic in topics for partition in range(_PARTITIONS)]
        consumer.commit(offsets=at, asynchronous=False)
        consumer.close()


def _method(seconds: float) -> list[str]:
    return [
        "A made-up source without a limit writes a topic of four partitions, exactly-once, and a FileStreamSink reads "
        f"it into nothing, for {seconds:g} s; `offset.flush.interval.ms` is {_FLUSH_S * 1000:g}. One side empties the "
        "topic behind the sink, the other keeps it. The topic has `segment.bytes` of "
        f"{_SEGMENT_BYTES >> 20} MiB, the broker looks every 5 s for segments to delete "
        "(`log.retention.check.interval.ms`). Offsets count markers of transactions, too. A round is measured by "
        "`GET /retention?dry=true`."
    ]
