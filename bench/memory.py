"""What a slot with one sink task of 1,000 partitions takes of memory, while records come into all of them."""

import time
from pathlib import Path

import psutil
from confluent_kafka import Producer

from bench.background import Background
from bench.family import holder
from bench.lines import FILLING, line
from bench.options import Options, say
from bench.result import Result, Row
from bench.side import SIDES
from bench.sink import FILE_SINK
from bench.statistic import number, statistic
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually

_PARTITIONS = 1000
_WIDTH = 100
_PER_S = 2000
_STEADY_S = 60.0
_PHASES = ("first", "second", "third")
_WITHIN_S = 240.0
_TICK_S = 0.05
_LOOK_S = 0.25
_MB = 1e6


def run(options: Options) -> Result:
    """Read what waits in the topic, then what comes, for three minutes."""
    records = options.size(2_000_000, 200_000)
    found: dict[str, list[float]] = {}
    with options.directory() as directory, EmbeddedKafka() as kafka:
        for _ in options.turns_of(1):
            for what, samples in _turn(kafka.bootstrap_servers, directory, records, options.is_quick).items():
                found.setdefault(what, []).extend(samples)
    rows = [
        Row(f"resident size of the slot, {what}", "MB", {"fencepost": samples}, ("median", "max"), reach="250 or less")
        for what, samples in found.items()
    ]
    return Result("memory", "A sink with many partitions", _method(records), _settings(), rows)


def _turn(bootstrap: str, directory: Path, records: int, is_quick: bool) -> dict[str, list[float]]:
    with SIDES["fencepost"](bootstrap, directory) as side:
        topic, out = f"{side.group}-wide", directory / f"{side.group}.txt"
        Admin({"bootstrap.servers": bootstrap}).topics.create(topic, partitions=_PARTITIONS, replication=1)
        writer = Writer(bootstrap, topic)
        writer.write(records)
        side.create(topic, {"connector.class": FILE_SINK, "tasks.max": "1", "topics": topic, "file": str(out)})
        found = {}
        with Resident(holder(side.pid, out, _WITHIN_S)) as resident:
            eventually(lambda: _lines(out) == records, within_s=_WITHIN_S, every_s=0.2)
            found["while it reads what waits"] = resident.take()
            with writer:
                for phase in _PHASES:
                    time.sleep(_STEADY_S / 10 if is_quick else _STEADY_S)
                    found[f"in the {phase} minute"] = resident.take()
                    values = found[f"in the {phase} minute"]
                    say(f"memory {phase:6} median {number(statistic('median', values))}, max {number(max(values))} MB")
        eventually(lambda: _lines(out) == writer.count, within_s=_WITHIN_S, every_s=0.2)
        return found


def _lines(out: Path) -> int:
    return out.stat().st_size // (_WIDTH + 1) if out.exists() else 0


class Writer(Background):
    """Writes records to each partition of a topic in turn, so many or all the time; a context manager."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__()
        self.count = 0
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
        self._value = line(0, FILLING, _WIDTH).encode()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._producer.flush()

    def write(self, records: int) -> None:
        """Return when all are in the topic."""
        for _ in range(records):
            self._produce()
        self._producer.flush()

    def _produce(self) -> None:
        while True:
            try:
                self._producer.produce(self._topic, self._value, partition=self.count % _PARTITIONS)
            except BufferError:
                self._producer.poll(0.01)
            else:
                self.count += 1
                return

    def _run(self) -> None:
        while not self._stop.wait(_TICK_S):
            for _ in range(int(_PER_S * _TICK_S)):
                self._produce()
            self._producer.poll(0)


class Resident(Background):
    """Looks at the resident size of a process four times a second, in a thread; a context manager."""

    def __init__(self, process: psutil.Process) -> None:
        super().__init__()
        self._process = process
        self._samples: list[float] = []

    def take(self) -> list[float]:
        """The samples in megabytes since the last call."""
        samples, self._samples = self._samples, []
        return samples

    def _run(self) -> None:
        while not self._stop.wait(_LOOK_S):
            self._samples.append(self._process.memory_info().rss / _MB)


def _settings() -> dict[str, dict[str, str]]:
    return {"the sink": {"fencepost": "one task, all at defaults"}}


def _method(records: int) -> list[str]:
    return [
        f"A FileStreamSink with one task reads a topic of {_PARTITIONS:,} partitions, in which {records:,} records of "
        f"{_WIDTH} bytes wait; then {_PER_S:,} come each second, to each partition in turn, for three minutes. The "
        "resident size is that of the slot's process, looked at four times a second, shared pages included; in "
        "brackets stand the smallest and the largest of it."
    ]
