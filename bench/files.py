"""Records a second out of Kafka into files, exactly once: our files sink beside Spark's own file sink."""

import glob
import io
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import fastavro
import pyarrow.parquet as pq

from bench.family import processor_s, since
from bench.options import Options, say
from bench.ordered import Ordered, spark
from bench.registry import SCHEMA_ID, registry
from bench.result import Result, Row
from bench.side import SIDES, Side
from bench.sink_jars import AVRO, JARS, sink_jars
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.produce.librdkafka_producer import LibrdkafkaProducer
from fencepost.kafka.setting.client_settings import producer_conf

SINK = "fencepost.connector.files_sink.FilesSink"
SCHEMA = "n INT, name STRING, place STRING, price DOUBLE"
AVRO_SCHEMA = {
    "type": "record", "name": "Order", "namespace": "bench", "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "int"},
        {"name": "name", "type": "string"},
        {"name": "place", "type": "string"},
        {"name": "price", "type": "double"},
        {"name": "weight", "type": "float"},
        {"name": "is_paid", "type": "boolean"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "mail", "type": ["null", "string"]},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "SENT", "DONE"]}},
    ],
}  # fmt: skip
WIDTH = 90
_PARTITIONS = 4
_LOOK_S = 0.02
_PATIENCE_S = 240.0
_NAMES = ("fencepost", "spark files")


@dataclass(frozen=True)
class Case:
    """What the files are, and what becomes them: the values of a topic."""

    key: str
    name: str
    end: str
    topic: str
    settings: Mapping[str, str]
    reach: str = "1.3 × or more"


_JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
_AVRO = {"value.converter": "io.confluent.connect.avro.AvroConverter"}
CASES = (
    Case("json", "topic of JSON to JSON lines", ".json", "objects", {**_JSON, "format": "json"}),
    Case(
        "parquet", "topic of JSON to Parquet", ".parquet", "objects",
        {**_JSON, "format": "parquet", "value.schema": SCHEMA},
    ),
    Case("avro", "topic of Avro to Parquet", ".parquet", "orders", {**_AVRO, "format": "parquet"}, "2 × or more"),
)  # fmt: skip


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
    with options.directory() as directory, EmbeddedKafka() as kafka, registry(json.dumps(AVRO_SCHEMA)) as url:
        for topic in {case.topic: None for case in cases}:
            _fill(kafka.bootstrap_servers, topic, records)
        for turn in options.turns_of(3):
            for name in _sides(options, turn):
                with _mover(name, kafka.bootstrap_servers, directory, turn, url) as mover:
                    for round_ in ("warm", "run"):
                        for case in cases:
                            out = directory / f"{round_}-{turn}-{name.replace(' ', '-')}-{case.key}"
                            done = _measured(mover, case, records, out)
                            if round_ == "run":
                                runs.setdefault((case.key, name), []).append(done)
                                say(f"{case.key:8} {name:11} {done}")
    result.rows = [
        Row(
            case.name, "records/s", _samples(runs, case, "rate"), is_more_better=True, reach=case.reach,
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
    def __init__(self, worker: Side, registry_url: str) -> None:
        self._worker = worker
        self._registry_url = registry_url
        self.pid = worker.pid

    def move(self, case: Case, out: Path, records: int) -> float:
        """Return how many seconds it took from the first write until all is shown."""
        config = {"connector.class": SINK, "topics": case.topic, "path": str(out), **case.settings}
        if case.topic == "orders":
            config["value.converter.schema.registry.url"] = self._registry_url
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

    def move(self, case: Case, out: Path, records: int) -> float:
        """Return what Spark says that its batches took."""
        return float(self._process.tell(case.key, case.topic, str(out)))


Mover = _Ours | _Theirs


@contextmanager
def _mover(name: str, bootstrap: str, directory: Path, turn: int, registry_url: str) -> Iterator[Mover]:
    if name == "fencepost":
        with SIDES["fencepost"](bootstrap, directory) as worker:
            yield _Ours(worker, registry_url)
        return
    arguments = [bootstrap, str(os.cpu_count()), ",".join(map(str, sink_jars(AVRO))), SCHEMA, json.dumps(AVRO_SCHEMA)]
    with spark("bench.spark_files", arguments, directory / f"spark-files-{turn}.log") as process:
        yield _Theirs(process)


def _measured(mover: Mover, case: Case, records: int, out: Path) -> Run:
    before = processor_s(mover.pid)
    took_s = mover.move(case, out, records)
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


def _fill(bootstrap: str, topic: str, records: int) -> None:
    """Create a topic with so many values, equally many in each partition."""
    Admin({"bootstrap.servers": bootstrap}).topics.create(topic, partitions=_PARTITIONS, replication=1)
    client = LibrdkafkaProducer(producer_conf({"bootstrap.servers": bootstrap, "linger.ms": "20"}).conf)
    for number in range(records):
        client.produce(topic, _VALUES[topic](number), partition=number % _PARTITIONS)
    client.flush(120)
    client.drop()


def _object(number: int) -> bytes:
    value = f'{{"n":{number},"name":"name-{number % 1000}","place":"place-{number % 97}","price":{number % 10_000}.25'
    return f'{value},"x":"{"x" * (WIDTH - len(value) - 8)}"}}'.encode()


_PARSED = fastavro.parse_schema(AVRO_SCHEMA)
_PREFIX = b"\0" + SCHEMA_ID.to_bytes(4, "big")


def _order(number: int) -> bytes:
    """Return a value of AVRO_SCHEMA as a serializer with a registry writes it."""
    out = io.BytesIO()
    out.write(_PREFIX)
    order = {
        "id": number * 7_919, "customer": number % 100_000, "name": f"name-{number % 1000}",
        "place": f"place-{number % 97}", "price": number % 10_000 + 0.25, "weight": number % 500 / 4,
        "is_paid": number % 3 == 0, "at": 1_700_000_000_000 + number * 17,
        "mail": f"name-{number % 1000}@example.org" if number % 5 else None,
        "state": ("NEW", "SENT", "DONE")[number % 3],
    }  # fmt: skip
    fastavro.schemaless_writer(out, _PARSED, order)
    return out.getvalue()


_VALUES: Mapping[str, Callable[[int], bytes]] = {"objects": _object, "orders": _order}


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
    jars = ", ".join(f"{module} {revision}" for _, module, revision in (*JARS, AVRO))
    own = ", ".join(f"{key}={value}" for key, value in case.settings.items())
    query = {
        "json": "writeStream.format(text)", "parquet": "from_json, writeStream.format(parquet)",
        "avro": "from_avro(substring(value, 6)), writeStream.format(parquet)",
    }[case.key]  # fmt: skip
    return {
        "fencepost": f"FilesSink, {own}; all else at its default",
        "spark files": f"{query}, trigger(availableNow), maxOffsetsPerTrigger=1000000, local[cores]; {jars}",
    }


def _method(records: int) -> list[str]:
    return [
        f"A topic of {_PARTITIONS} partitions with {records:,} JSON objects of {WIDTH} bytes is written to a "
        "directory, exactly once: by FilesSink on a worker, and by a Structured Streaming query with Spark's own "
        "source and file sink, in batches of a million records at most as ours are. JSON lines are the texts as they "
        "are; for Parquet they are parsed. A topic with as many Avro values of ten fields, each with the id of its "
        "schema, is written to Parquet, too: FilesSink asks a registry for the schema at each epoch, Spark's "
        "`from_avro` is given it and skips the id. Each side does each case once as a warm-up. Our time is from the "
        "first write until a reader finds all records; theirs is what Spark says that its batches took. Then the files "
        "must have as many rows.",
    ]
