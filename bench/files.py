"""Records a second out of Kafka into files, exactly once: our files sink beside Spark's own file sink."""

import glob
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from bench.family import processor_s, since
from bench.options import Options, say
from bench.ordered import Ordered, spark
from bench.result import Result, Row
from bench.side import SIDES, Side
from bench.sink_jars import JARS, sink_jars
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.produce.librdkafka_producer import LibrdkafkaProducer
from fencepost.kafka.setting.client_settings import producer_conf

SINK = "fencepost.connector.files_sink.FilesSink"
SCHEMA = "n INT, name STRING, place STRING, price DOUBLE"
WIDTH = 90
_PARTITIONS = 4
_LOOK_S = 0.02
_PATIENCE_S = 240.0
_NAMES = ("fencepost", "spark files")


@dataclass(frozen=True)
class Case:
    """What the files are."""

    key: str
    name: str
    end: str
    settings: Mapping[str, str]


CASES = (
    Case("json", "topic of JSON to JSON lines", ".json", {"format": "json"}),
    Case("parquet", "topic of JSON to Parquet", ".parquet", {"format": "parquet", "value.schema": SCHEMA}),
)


@dataclass(frozen=True)
class Run:
    """What one side has done in one run of a case."""

    rate: float
    processor_per_million: float
    files: int
    megabytes: float


def run(options: Options) -> Result:
    """Run the cases, alternating between the sides."""
    records = options.size(4_000_000, 400_000)
    cases = [case for case in CASES if not options.cases or case.key in options.cases]
    result = Result("files", "Files", _method(records), {case.name: _settings(case) for case in cases})
    runs: dict[tuple[str, str], list[Run]] = {}
    with options.directory() as directory, EmbeddedKafka() as kafka:
        topic = _filled(kafka.bootstrap_servers, records)
        for turn in options.turns_of(3):
            for name in _sides(options, turn):
                with _mover(name, kafka.bootstrap_servers, directory, turn) as mover:
                    for round_ in ("warm", "run"):
                        for case in cases:
                            out = directory / f"{round_}-{turn}-{name.replace(' ', '-')}-{case.key}"
                            done = _measured(mover, case, topic, records, out)
                            if round_ == "run":
                                runs.setdefault((case.key, name), []).append(done)
                                say(f"{case.key:8} {name:11} {done}")
    result.rows = [
        Row(
            case.name, "records/s", _samples(runs, case, "rate"), is_more_better=True, reach="1.3 × or more",
            detail=_detail(runs, case),
        )
        for case in CASES
    ]  # fmt: skip
    for what, text, unit in (
        ("processor_per_million", "processor time of all its processes for a million records", "s"),
        ("files", "files", "files"),
        ("megabytes", "size of all files", "MB"),
    ):
        result.rows += [Row(f"{case.name}: {text}", unit, _samples(runs, case, what)) for case in CASES]
    return result


class _Ours:
    def __init__(self, worker: Side) -> None:
        self._worker = worker
        self.pid = worker.pid

    def move(self, case: Case, topic: str, out: Path, records: int) -> float:
        """Return how many seconds it took from the first write until all is shown."""
        config = {
            "connector.class": SINK, "topics": topic, "path": str(out), **case.settings,
            "value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false",
        }  # fmt: skip
        self._worker.create(out.name, config)
        deadline = time.monotonic() + _PATIENCE_S
        began_s = None
        while sum(_rows(file) for file in _shown(out, case)) < records:
            if began_s is None and glob.glob(f"{out}/.fencepost/*/*"):
                began_s = time.monotonic()
            if time.monotonic() > deadline:
                raise ValueError(f"{out} has not got {records} records in {_PATIENCE_S:g} s")
            time.sleep(_LOOK_S)
        ended_s = time.monotonic()
        self._worker.delete(out.name)
        assert began_s is not None
        return ended_s - began_s


class _Theirs:
    def __init__(self, process: Ordered) -> None:
        self._process = process
        self.pid = process.pid

    def move(self, case: Case, topic: str, out: Path, records: int) -> float:
        """Return what Spark says that its batches took."""
        return float(self._process.tell(case.key, topic, str(out)))


Mover = _Ours | _Theirs


@contextmanager
def _mover(name: str, bootstrap: str, directory: Path, turn: int) -> Iterator[Mover]:
    if name == "fencepost":
        with SIDES["fencepost"](bootstrap, directory) as worker:
            yield _Ours(worker)
        return
    arguments = [bootstrap, str(os.cpu_count()), ",".join(map(str, sink_jars())), SCHEMA]
    with spark("bench.spark_files", arguments, directory / f"spark-files-{turn}.log") as process:
        yield _Theirs(process)


def _measured(mover: Mover, case: Case, topic: str, records: int, out: Path) -> Run:
    before = processor_s(mover.pid)
    took_s = mover.move(case, topic, out, records)
    spent_s = sum(since(before, processor_s(mover.pid)).values())
    files = _shown(out, case)
    rows, size = sum(map(_rows, files)), sum(os.stat(file).st_size for file in files)
    if rows != records:
        raise ValueError(f"{out} has {rows} rows, not {records}")
    return Run(records / took_s, spent_s * 1e6 / records, len(files), size / 1e6)


_counted: dict[str, int] = {}


def _rows(file: str) -> int:
    """Return the rows of a file, which is whole once it is shown."""
    if file not in _counted:
        is_parquet = file.endswith(".parquet")
        _counted[file] = pq.ParquetFile(file).metadata.num_rows if is_parquet else Path(file).read_bytes().count(b"\n")
    return _counted[file]


def _shown(out: Path, case: Case) -> list[str]:
    return glob.glob(f"{out}/*{case.end}") or glob.glob(f"{out}/*.txt")


def _filled(bootstrap: str, records: int) -> str:
    """Return a topic with so many objects, equally many in each partition."""
    Admin({"bootstrap.servers": bootstrap}).topics.create("objects", partitions=_PARTITIONS, replication=1)
    client = LibrdkafkaProducer(producer_conf({"bootstrap.servers": bootstrap, "linger.ms": "20"}).conf)
    for number in range(records):
        client.produce("objects", _object(number), partition=number % _PARTITIONS)
    client.flush(120)
    client.drop()
    return "objects"


def _object(number: int) -> bytes:
    value = f'{{"n":{number},"name":"name-{number % 1000}","place":"place-{number % 97}","price":{number % 10_000}.25'
    return f'{value},"x":"{"x" * (WIDTH - len(value) - 8)}"}}'.encode()


def _sides(options: Options, turn: int) -> list[str]:
    names = [name for name in _NAMES if not options.only or name == options.only]
    return names if turn % 2 == 0 else names[::-1]


def _samples(runs: Mapping[tuple[str, str], Sequence[Run]], case: Case, what: str) -> Mapping[str, Sequence[float]]:
    return {name: [getattr(run, what) for run in runs.get((case.key, name), ())] for name in _NAMES}


def _detail(runs: Mapping[tuple[str, str], Sequence[Run]], case: Case) -> Mapping[str, Sequence[Mapping[str, float]]]:
    return {
        name: [{"files": run.files, "megabytes": round(run.megabytes, 1)} for run in runs.get((case.key, name), ())]
        for name in _NAMES
    }


def _settings(case: Case) -> Mapping[str, str]:
    jars = ", ".join(f"{module} {revision}" for _, module, revision in JARS)
    own = ", ".join(f"{key}={value}" for key, value in case.settings.items())
    query = "writeStream.format(text)" if case.key == "json" else "from_json, writeStream.format(parquet)"
    return {
        "fencepost": f"FilesSink, {own}; all else at its default",
        "spark files": f"{query}, trigger(availableNow), maxOffsetsPerTrigger=1000000, local[cores]; {jars}",
    }


def _method(records: int) -> list[str]:
    return [
        f"A topic of {_PARTITIONS} partitions with {records:,} JSON objects of {WIDTH} bytes is written to a "
        "directory, exactly once: by FilesSink on a worker, and by a Structured Streaming query with Spark's own "
        "source and file sink, in batches of a million records at most as ours are. JSON lines are the texts as they "
        "are; for Parquet they are parsed. Each side does each case once as a warm-up. Our time is from the first "
        "write until a reader finds all records; theirs is what Spark says that its batches took. Then the files must "
        "have as many rows.",
    ]
