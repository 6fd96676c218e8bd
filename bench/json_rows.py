"""Rows of ten fields through JsonConverter with schemas: into Kafka, and out of Kafka to a file."""

import time
from collections.abc import Callable
from pathlib import Path

from bench.family import Spending
from bench.java_plugins import compiled
from bench.moving import Run, Runs, made_topic, moved
from bench.moving import rows as rows_of
from bench.options import Options, say
from bench.plugins.rows import ROW, row
from bench.result import Result
from bench.side import SIDES, Side
from bench.sink import FILE_SINK
from bench.watch import last_value
from fencepost.builtin.converter.json import JsonConverter
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.produce.librdkafka_producer import LibrdkafkaProducer
from fencepost.kafka.setting.client_settings import producer_conf

JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "true"}
TUNED = {"producer.override.linger.ms": "5", "producer.override.batch.size": "131072"}
"""What makes Kafka Connect fast here; Fencepost's producer stays at our defaults."""
_PLUGINS = Path(__file__).with_name("plugins")
_BATCH = 2000
_LOOK_S = 0.01
_PATIENCE_S = 300.0


SOURCE, SINK = "rows to a topic, a transaction each poll of 2000 rows", "topic of one partition to a file"
CASES = {"source": SOURCE, "sink": SINK}


def run(options: Options) -> Result:
    """Run the cases, alternating between the sides."""
    rows = options.size(1_000_000, 200_000)
    cases = [case for case in CASES if not options.cases or case in options.cases]
    result = Result("json_rows", "JSON with schemas", _method(rows), _settings())
    runs: Runs = {}
    with options.directory() as directory, EmbeddedKafka() as kafka:
        compiled(directory / "plugins" / "rows", {"RowsSource": "source"})
        plugins = {"fencepost": str(_PLUGINS), "connect": str(directory / "plugins")}
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
    result.rows = rows_of(CASES, runs, rate="2 × or more", processor="")
    return result


class _Arena:
    """A worker, and one run after another."""

    def __init__(self, side: Side, kafka: EmbeddedKafka, directory: Path, rows: int) -> None:
        self._side = side
        self._kafka = kafka
        self._directory = directory
        self._rows = rows

    def source(self, what: str) -> Run:
        """1. Topic. 2. POST, and wait until all is committed. 3. See that the last record is the last row."""
        side, bootstrap = self._side, self._kafka.bootstrap_servers
        topic = made_topic(self._kafka, f"{side.group}-{what}")  # 1
        config = {"connector.class": "RowsSource", "tasks.max": "1", "topic": topic, "rows": str(self._rows)}
        config |= {"batch.size": str(_BATCH), **JSON, **(TUNED if side.name == "connect" else {})}
        run = moved(side, self._kafka, topic, self._rows, lambda: side.create(topic, config))  # 2
        _check(last_value(bootstrap, topic), self._rows - 1)  # 3
        side.delete(topic)
        Admin({"bootstrap.servers": bootstrap}).topics.delete([topic])
        return run

    def sink(self, what: str, topic: str) -> Run:
        """1. POST. 2. Wait until the file has begun. 3. Wait until its last line is the last row. 4. Count lines."""
        side, out = self._side, self._directory / f"{self._side.group}-{what}"
        spending = Spending(side.pid, self._kafka.pid)
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
        return Run.of(self._rows, ended_at - began_at, spent)


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
