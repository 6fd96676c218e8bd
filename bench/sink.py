"""Records a second out of Kafka: a FileStreamSink that writes a topic of 100-byte records to a file."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from bench.family import Spending
from bench.lines import FILLING, line
from bench.moving import PROCESSOR, Run
from bench.options import Options, say
from bench.result import Result, Row
from bench.side import SIDES, Side
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.produce.librdkafka_producer import LibrdkafkaProducer
from fencepost.kafka.setting.client_settings import producer_conf

FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
WIDTH = 100
_LOOK_S = 0.01
_PATIENCE_S = 180.0
_BLOCK = 20_000
_PLAIN: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Case:
    """A topic of so many partitions, read by one task."""

    key: str
    partitions: int

    @property
    def name(self) -> str:
        noun = "partition" if self.partitions == 1 else "partitions"
        return f"topic of {self.partitions} {noun} to a file"


CASES = (Case("one", 1), Case("four", 4))


def run(options: Options) -> Result:
    """Run the cases, alternating between the sides."""
    records = options.size(4_000_000, 500_000)
    cases = [case for case in CASES if not options.cases or case.key in options.cases]
    settings = dict.fromkeys(SIDES, "tasks.max=1, all else at its default")
    result = Result("sink", "Sink", _method(records), {case.name: settings for case in cases})
    runs: dict[tuple[str, str], list[Run]] = {}
    with options.directory() as directory, EmbeddedKafka() as kafka:
        topics = {case.key: filled(kafka.bootstrap_servers, case.partitions, records) for case in CASES}
        for turn in options.turns_of(3):
            for side in options.sides(turn):
                with SIDES[side](kafka.bootstrap_servers, directory) as worker:
                    for case in cases:
                        move(worker, kafka, topics[case.key], records, directory / f"{side}-{turn}-warm-{case.key}")
                    for case in cases:
                        out = directory / f"{side}-{turn}-{case.key}"
                        done = move(worker, kafka, topics[case.key], records, out)
                        runs.setdefault((case.key, side), []).append(done)
                        say(f"{case.key:5} {side:10} {done.rate:11,.0f} records/s  {dict(done.detail)}")
    result.rows = [_rate_row(case, runs) for case in CASES]
    result.rows += [_processor_row(case, runs) for case in CASES]
    return result


def filled(bootstrap: str, partitions: int, records: int, producer: Mapping[str, str] = _PLAIN) -> str:
    """Return the topic with so many records, equally many in each partition; it is written once.

    `producer`: settings of who writes it, beside our own.
    """
    topic = "-".join(("lines", str(partitions), str(records), *producer.values()))
    admin = Admin({"bootstrap.servers": bootstrap})
    if admin.topics.get(topic) is not None:
        return topic
    admin.topics.create(topic, partitions=partitions, replication=1)
    client = LibrdkafkaProducer(producer_conf({"bootstrap.servers": bootstrap, "linger.ms": "20", **producer}).conf)
    for number in range(records):
        client.produce(topic, line(number, FILLING, WIDTH).encode(), partition=number % partitions)
    client.flush(120)
    client.drop()
    return topic


def move(side: Side, kafka: EmbeddedKafka, topic: str, records: int, out: Path, connector: str = FILE_SINK) -> Run:
    """1. POST. 2. Wait until the file has begun. 3. Wait until it is whole. 4. See that it is."""
    size = records * (WIDTH + 1)
    spending = Spending(side.pid, kafka.pid)
    side.create(out.name, {"connector.class": connector, "tasks.max": "1", "topics": topic, "file": str(out)})  # 1
    posted_at = time.monotonic()
    began_at = _until(out, 1, posted_at)  # 2
    ended_at = _until(out, size, posted_at)  # 3
    spent = spending.spent()
    _check(out, records)  # 4
    side.delete(out.name)
    out.unlink()
    return Run.of(records, ended_at - began_at, {k: round(v, 2) for k, v in spent.items()})


def _until(out: Path, size: int, posted_at: float) -> float:
    """Return when the file was so large."""
    while not out.exists() or out.stat().st_size < size:
        if time.monotonic() - posted_at > _PATIENCE_S:
            raise ValueError(f"{out} has not become {size} bytes large")
        time.sleep(_LOOK_S)
    return time.monotonic()


def _check(out: Path, records: int) -> None:
    """Raise ValueError unless each record is in the file once."""
    numbers = sorted(int(each[:12]) for each in out.read_bytes().split(b"\n")[:-1])
    if numbers != list(range(records)):
        raise ValueError(f"{out} has {len(numbers)} lines, {len(set(numbers))} different ones, not {records}")


def _rate_row(case: Case, runs: Mapping[tuple[str, str], Sequence[Run]]) -> Row:
    samples = {side: [run.rate for run in runs.get((case.key, side), ())] for side in SIDES}
    detail = {side: [dict(run.detail) for run in runs.get((case.key, side), ())] for side in SIDES}
    return Row(case.name, "records/s", samples, is_more_better=True, reach="1.2 × or more", detail=detail)


def _processor_row(case: Case, runs: Mapping[tuple[str, str], Sequence[Run]]) -> Row:
    samples = {side: [run.processor_per_million for run in runs.get((case.key, side), ())] for side in SIDES}
    return Row(f"{case.name}: {PROCESSOR}", "s", samples, reach="0.7 × or less")


def _method(records: int) -> list[str]:
    return [
        f"A topic of {records:,} records of {WIDTH} bytes, without keys, is written to a file by FileStreamSink, at "
        "least once. A worker is started, does each case once as a warm-up, and then again. The rate is all records, "
        "by the time from the first byte of the file until it is whole; its size is looked at every "
        f"{_LOOK_S * 1000:.0f} ms. Then each record must be in it once.",
    ]
