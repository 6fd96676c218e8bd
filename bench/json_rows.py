"""Rows of ten fields through JsonConverter with schemas: into Kafka, and out of Kafka to a file."""

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import peer
from bench.family import Everybody, processor_s, since
from bench.options import Options, say
from bench.plugins.rows import ROW, row
from bench.result import Result, Row
from bench.side import SIDES, Side
from bench.sink import FILE_SINK
from bench.watch import Watcher, last_value
from fencepost.converter.json import JsonConverter
from fencepost.embedded import EmbeddedKafka
from fencepost.embedded.java import find_java
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.produce.librdkafka_producer import LibrdkafkaProducer
from fencepost.kafka.setting.client_settings import producer_conf

JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "true"}
TUNED = {"producer.override.linger.ms": "5", "producer.override.batch.size": "131072"}
"""What makes Kafka Connect fast here; Fencepost's producer stays at our defaults."""
_JAVA = Path(__file__).with_name("java") / "RowsSource.java"
_PLUGINS = Path(__file__).with_name("plugins")
_BATCH = 2000
_LOOK_S = 0.01
_QUIET_S = 1.0
_PATIENCE_S = 300.0


@dataclass(frozen=True)
class Run:
    """What one side has done in one run of a case."""

    rate: float
    processor_per_million: float
    detail: Mapping[str, float]


SOURCE, SINK = "rows to a topic, a transaction each poll of 2000 rows", "topic of one partition to a file"
CASES = {"source": SOURCE, "sink": SINK}


def run(options: Options) -> Result:
    """Run the cases, alternating between the sides."""
    rows = options.size(1_000_000, 200_000)
    cases = [case for case in CASES if not options.cases or case in options.cases]
    result = Result("json_rows", "JSON with schemas", _method(rows), _settings())
    runs: dict[tuple[str, str], list[Run]] = {}
    with options.directory() as directory, EmbeddedKafka() as kafka:
        plugins = {"fencepost": str(_PLUGINS), "connect": str(_compiled(directory / "plugins"))}
        filled = _filled(kafka.bootstrap_servers, rows)
        for turn in options.turns_of(3):
            for name in options.sides(turn):
                with SIDES[name](kafka.bootstrap_servers, directory, {"plugin.path": plugins[name]}) as side:
                    arena = _Arena(side, kafka, directory, rows)
                    for case in cases:
                        for label in ("warm", "warmer", "run"):
                            what = f"{case}-{turn}-{label}"
                            done = arena.source(what) if case == "source" else arena.sink(what, filled)
                        runs.setdefault((case, name), []).append(done)
                        say(f"{case:7} {name:10} {done.rate:11,.0f} records/s  {dict(done.detail)}")
    result.rows = [_rate_row(case, runs) for case in CASES] + [_processor_row(case, runs) for case in CASES]
    return result


class _Arena:
    """A worker, and one run after another."""

    def __init__(self, side: Side, kafka: EmbeddedKafka, directory: Path, rows: int) -> None:
        self._side = side
        self._kafka = kafka
        self._directory = directory
        self._rows = rows

    def source(self, what: str) -> Run:
        """1. Topic. 2. POST. 3. Wait until all is committed. 4. See that the last record is the last row."""
        side, bootstrap = self._side, self._kafka.bootstrap_servers
        topic, admin = f"{side.group}-{what}", Admin({"bootstrap.servers": bootstrap})
        admin.topics.create(topic, partitions=1, replication=1)  # 1
        config = {"connector.class": "RowsSource", "tasks.max": "1", "topic": topic, "rows": str(self._rows)}
        config |= {"batch.size": str(_BATCH), **JSON, **(TUNED if side.name == "connect" else {})}
        with Watcher(bootstrap, [topic]) as watcher:
            spending = _Spending(side, self._kafka)
            side.create(topic, config)  # 2
            done = watcher.until_quiet(self._rows, _QUIET_S, _PATIENCE_S)  # 3
            spent = spending.spent()
        began_at = next(sample.at_s for sample in watcher.samples if sample.written)
        _check(last_value(bootstrap, topic), self._rows - 1)  # 4
        side.delete(topic)
        admin.topics.delete([topic])
        return self._run(done.at_s - began_at, spent)

    def sink(self, what: str, topic: str) -> Run:
        """1. POST. 2. Wait until the file has begun. 3. Wait until its last line is the last row. 4. Count lines."""
        side, out = self._side, self._directory / f"{self._side.group}-{what}"
        spending = _Spending(side, self._kafka)
        config = {"connector.class": FILE_SINK, "tasks.max": "1", "topics": topic, "file": str(out), **JSON}
        side.create(out.name, config)  # 1
        began_at = _until(lambda: out.exists() and out.stat().st_size > 0)  # 2
        ended_at = _until(lambda: _number_of_last(out) == self._rows - 1)  # 3
        spent = spending.spent()
        with out.open("rb") as lines:
            count = sum(1 for _ in lines)  # 4
        if count != self._rows:
            raise ValueError(f"{out} has {count} lines, not {self._rows}")
        side.delete(out.name)
        out.unlink()
        return self._run(ended_at - began_at, spent)

    def _run(self, seconds: float, spent: Mapping[str, float]) -> Run:
        own = sum(spent[kind] for kind in ("worker", "jvm", "python") if kind in spent)
        return Run(self._rows / seconds, own * 1e6 / self._rows, spent)


class _Spending:
    """The processor time that is spent from now on."""

    def __init__(self, side: Side, kafka: EmbeddedKafka) -> None:
        self._side, self._kafka = side, kafka
        self._before, self._broker = processor_s(side.pid), processor_s(kafka.pid)
        self._everybody = Everybody()

    def spent(self) -> dict[str, float]:
        spent = since(self._before, processor_s(self._side.pid))
        spent["broker"] = since(self._broker, processor_s(self._kafka.pid))["worker"]
        spent["others"] = round(self._everybody.spent_s() - sum(spent.values()), 2)
        return spent


def _compiled(directory: Path) -> Path:
    """Compile the connector of Kafka Connect. Return the directory that is its `plugin.path`."""
    classes = directory / "rows"
    services = classes / "META-INF" / "services"
    services.mkdir(parents=True)
    (services / "org.apache.kafka.connect.source.SourceConnector").write_text("RowsSource\n")
    compiler = [str(find_java().path), "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    subprocess.run([*compiler, "-cp", peer.classpath(), "-d", str(classes), str(_JAVA)], check=True)
    return directory


def _filled(bootstrap: str, rows: int) -> str:
    """Return a topic of one partition with the rows."""
    topic = f"rows-{rows}"
    Admin({"bootstrap.servers": bootstrap}).topics.create(topic, partitions=1, replication=1)
    converter = JsonConverter({})
    client = LibrdkafkaProducer(producer_conf({"bootstrap.servers": bootstrap, "linger.ms": "20"}).conf)
    for begin in range(0, rows, _BATCH):
        for value in converter.from_column(ROW, list(map(row, range(begin, min(begin + _BATCH, rows))))) or ():
            client.produce(topic, value, partition=0)
    client.flush(120)
    client.drop()
    return topic


def _check(value: bytes | None, number: int) -> None:
    found = None if value is None else JsonConverter({}).to_connect_data("t", value)[1]["id"]
    if found != number:
        raise ValueError(f"the topic ends with row {found}, not {number}")


def _until(is_reached: Callable[[], bool]) -> float:
    """Return when something has happened."""
    deadline = time.monotonic() + _PATIENCE_S
    while not is_reached():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {_PATIENCE_S:.0f} s")
        time.sleep(_LOOK_S)
    return time.monotonic()


def _number_of_last(out: Path) -> int:
    """Return the number of the last row in a file; -1 while its line is not whole."""
    with out.open("rb") as file:
        file.seek(max(out.stat().st_size - 1000, 0))
        lines = file.read().split(b"\n")
    begin = b"Struct{id="
    is_whole = len(lines) > 1 and not lines[-1] and lines[-2].startswith(begin)
    return int(lines[-2].removeprefix(begin).partition(b",")[0]) if is_whole else -1


def _rate_row(case: str, runs: Mapping[tuple[str, str], Sequence[Run]]) -> Row:
    samples = {side: [run.rate for run in runs.get((case, side), ())] for side in SIDES}
    detail = {side: [dict(run.detail) for run in runs.get((case, side), ())] for side in SIDES}
    return Row(CASES[case], "records/s", samples, is_more_better=True, reach="2 × or more", detail=detail)


def _processor_row(case: str, runs: Mapping[tuple[str, str], Sequence[Run]]) -> Row:
    samples = {side: [run.processor_per_million for run in runs.get((case, side), ())] for side in SIDES}
    return Row(f"{CASES[case]}: processor time of the worker and all below it for a million records", "s", samples)


def _settings() -> dict[str, dict[str, str]]:
    shared = ", ".join(f"{key}={value}" for key, value in JSON.items())
    tuned = ", ".join(f"{key}={value}" for key, value in TUNED.items())
    return {
        SOURCE: {"fencepost": shared, "connect": f"{shared}, {tuned}"},
        SINK: dict.fromkeys(SIDES, shared),
    }


def _method(rows: int) -> list[str]:
    return [
        f"{rows:,} rows of ten fields (numbers, texts, a boolean, a timestamp, an optional text) with a schema. The "
        "source makes them: a connector of a page, written once in Java and once in Python. The sink is "
        "FileStreamSink. A worker is started, does each case twice as a warm-up, and then again.",
        "Into Kafka, the rate is all records, by the time from the first record in the log until all are committed. "
        "Out of Kafka, by the time from the first byte of the file until its last line is the last row; then it must "
        "have as many lines as there are rows.",
    ]
