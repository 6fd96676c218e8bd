"""How long after a line is appended to an idle file it is visible, and after a record is sent a sink has written it."""

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from bench.growing import GrowingFile
from bench.lines import FILLING, line
from bench.options import Options, say
from bench.result import Result, Row
from bench.side import SIDES, Side
from bench.sink import FILE_SINK
from bench.statistic import number, percentile
from bench.tail import ASK_EVERY_MS, Tail
from bench.throughput import FILE_SOURCE
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin

_TURNS = 2
_WARM_UP = 15
_PAUSE_S = (0.05, 0.55)
_PATIENCE_S = 30.0
_START_S = 90.0
_LOOK_S = 0.001
_SEED = 4


@dataclass(frozen=True)
class Place:
    """Where a turn of a side plays; `moments` are the same for both sides."""

    bootstrap: str
    directory: Path
    side: Side
    moments: random.Random

    def topic(self, what: str) -> str:
        """Make a topic of one partition."""
        name = f"{self.side.group}-{what}"
        Admin({"bootstrap.servers": self.bootstrap}).topics.create(name, partitions=1, replication=1)
        return name

    def sample(self, count: int, one: Callable[[int], float]) -> list[float]:
        """Take `count` samples at random moments, in milliseconds, after some that do not count."""
        found = []
        for sequence in range(_WARM_UP + count):
            time.sleep(self.moments.uniform(*_PAUSE_S))
            found.append(one(sequence) * 1000)
        return found[_WARM_UP:]


@dataclass(frozen=True)
class Case:
    """What is measured: in one turn of a side, so many samples."""

    key: str
    name: str
    reach: str
    measure: Callable[[Place, int], list[float]]


def run(options: Options) -> Result:
    """Append and send at random moments, on each side in turn."""
    per_turn = options.size(100, 25)
    cases = [case for case in CASES if not options.cases or case.key in options.cases]
    samples: dict[tuple[str, str], list[float]] = {}
    with options.directory() as directory, EmbeddedKafka() as kafka:
        for turn in options.turns_of(_TURNS):
            for name in options.sides(turn):
                with SIDES[name](kafka.bootstrap_servers, directory) as side:
                    for case in cases:
                        place = Place(kafka.bootstrap_servers, directory, side, random.Random(_SEED + turn))
                        found = case.measure(place, per_turn)
                        samples.setdefault((case.key, name), []).extend(found)
                        percentiles = f"p50 {number(percentile(found, 50))} p99 {number(percentile(found, 99))} ms"
                        say(f"latency {case.key:6} {name:10} {percentiles}")
    rows = [
        Row(
            case.name, "ms", {side: samples.get((case.key, side), []) for side in SIDES}, ("p50", "p99"),
            reach=case.reach,
        )
        for case in CASES
    ]  # fmt: skip
    return Result("latency", "Latency", _method(per_turn), _settings(), rows)


def config(file: GrowingFile, topic: str) -> dict[str, str]:
    """A FileStreamSource with nothing but what it needs."""
    return {"connector.class": FILE_SOURCE, "tasks.max": "1", "file": str(file.path), "topic": topic}


def _source(place: Place, count: int) -> list[float]:
    """From when a line is in the file until it is handed to a consumer."""
    topic = place.topic("in")
    file = GrowingFile(place.directory / f"{topic}.txt")
    file.append()
    place.side.create(topic, config(file, topic))
    with Tail(place.bootstrap, topic) as tail:

        def one(_: int) -> float:
            number = file.count
            at_s = file.append()
            return tail.wait_for(number, _PATIENCE_S).at_s - at_s

        tail.wait_for(0, _START_S)
        found = place.sample(count, one)
    place.side.delete(topic)
    return found


def _sink(place: Place, count: int) -> list[float]:
    """From when a record is handed to a producer until `put` has its line in the file."""
    topic = place.topic("out")
    out = place.directory / f"{topic}.txt"
    producer = Producer({"bootstrap.servers": place.bootstrap, "linger.ms": 0, "acks": "all"})
    text = line(0, FILLING, 100)

    def written(lines: int, within_s: float) -> float:
        deadline_s = time.monotonic() + within_s
        while not out.exists() or out.stat().st_size < lines * (len(text) + 1):
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{lines} lines are not in {out.name} within {within_s:.0f} s")
            time.sleep(_LOOK_S)
        return time.monotonic()

    def one(number: int) -> float:
        at_s = time.monotonic()
        producer.produce(topic, text.encode())
        seen_s = written(number + 2, _PATIENCE_S)
        producer.flush(_PATIENCE_S)
        return seen_s - at_s

    producer.produce(topic, text.encode())
    producer.flush(_PATIENCE_S)
    place.side.create(topic, {"connector.class": FILE_SINK, "tasks.max": "1", "topics": topic, "file": str(out)})
    written(1, _START_S)
    found = place.sample(count, one)
    place.side.delete(topic)
    return found


CASES = (
    Case("source", "a line appended at a random moment → visible", "40 / 150 or less", _source),
    Case("sink", "a record sent at a random moment → written by the sink", "15 / 60 or less", _sink),
)


def _settings() -> Mapping[str, Mapping[str, str]]:
    return {"both": dict.fromkeys(SIDES, "exactly-once sources, a transaction each poll, all at defaults")}


def _method(count: int) -> list[str]:
    low, high = _PAUSE_S
    return [
        f"A line of 100 bytes is appended {low:g}-{high:g} s (at random, seeds from {_SEED}) after the one before was "
        f"seen; {count} lines in each turn of a side, after {_WARM_UP} that do not count. The consumer asks the broker "
        f"every {ASK_EVERY_MS} ms, so a figure may be that much too high.",
        f"The other way round, records of 100 bytes are sent at such moments, in no transaction, to a topic that is "
        "quiet but for them, and FileStreamSink writes them to a file, whose size is looked at every "
        f"{_LOOK_S * 1000:.0f} ms. The figure begins with the call of the producer: the way to the broker is in it.",
    ]
