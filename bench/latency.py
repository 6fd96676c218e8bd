"""How long after a line is appended to an idle file it is visible to a read_committed consumer."""

import random
import time
from collections.abc import Mapping

from bench.growing import GrowingFile
from bench.options import Options, say
from bench.result import Result, Row
from bench.side import SIDES
from bench.statistic import number, percentile
from bench.tail import ASK_EVERY_MS, Tail
from bench.throughput import FILE_SOURCE
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin import Admin

_TURNS = 2
_WARM_UP = 15
_PAUSE_S = (0.05, 0.55)
_PATIENCE_S = 30.0
_SEED = 4


def run(options: Options) -> Result:
    """Append lines at random moments, on each side in turn."""
    per_turn = options.size(100, 25)
    samples: dict[str, list[float]] = {side: [] for side in SIDES}
    with options.directory() as directory, EmbeddedKafka() as kafka:
        for turn in options.turns_of(_TURNS):
            for name in options.sides(turn):
                with SIDES[name](kafka.bootstrap_servers, directory) as side:
                    Admin({"bootstrap.servers": kafka.bootstrap_servers}).create_topic(
                        side.group, partitions=1, replication=1
                    )
                    file = GrowingFile(directory / f"{side.group}.txt")
                    file.append()
                    side.create(side.group, config(file, side.group))
                    with Tail(kafka.bootstrap_servers, side.group) as tail:
                        found = _measure(file, tail, per_turn, random.Random(_SEED + turn))
                samples[name] += found
                say(f"latency {name:10} p50 {number(percentile(found, 50))} p99 {number(percentile(found, 99))} ms")
    row = Row("a line appended at a random moment → visible", "ms", samples, ("p50", "p99"), reach="40 / 150 or less")
    return Result("latency", "Latency", _method(per_turn), _settings(), [row])


def config(file: GrowingFile, topic: str) -> dict[str, str]:
    """A FileStreamSource with nothing but what it needs."""
    return {"connector.class": FILE_SOURCE, "tasks.max": "1", "file": str(file.path), "topic": topic}


def _measure(file: GrowingFile, tail: Tail, count: int, moments: random.Random) -> list[float]:
    tail.wait_for(0, 90)
    found = []
    for sample in range(_WARM_UP + count):
        time.sleep(moments.uniform(*_PAUSE_S))
        number = file.count
        at_s = file.append()
        seen = tail.wait_for(number, _PATIENCE_S)
        if sample >= _WARM_UP:
            found.append((seen.at_s - at_s) * 1000)
    return found


def _settings() -> Mapping[str, Mapping[str, str]]:
    return {"both": dict.fromkeys(SIDES, "exactly-once, a transaction each poll, all at defaults")}


def _method(count: int) -> list[str]:
    low, high = _PAUSE_S
    return [
        f"A line of 100 bytes is appended {low:g}-{high:g} s (at random, seeds from {_SEED}) after the one before was "
        f"seen; {count} lines in each turn of a side, after {_WARM_UP} that do not count. The consumer asks the broker "
        f"every {ASK_EVERY_MS} ms, so a figure may be that much too high."
    ]
