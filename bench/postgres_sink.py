"""Rows a second into Postgres: PostgresSink with a topic of rows, and psql's COPY of the same rows from a file."""

import json
import time
from collections.abc import Callable
from pathlib import Path

from bench.family import Spending
from bench.moving import PROCESSOR, Run
from bench.options import Options, say
from bench.plugins.rows import ROW, row
from bench.postgres import Postgres, running_postgres
from bench.result import Result, Row
from bench.side import SIDES, Side
from fencepost.builtin.converter.json import JsonConverter
from fencepost.builtin.converter.json_encoding import EncodingOptions
from fencepost.builtin.converter.json_schema import schema_to_json
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.produce.librdkafka_producer import LibrdkafkaProducer
from fencepost.kafka.setting.client_settings import producer_conf

PSQL, OURS = "psql", "fencepost"
CASES = {"insert": {"insert.mode": "insert"}, "upsert": {"insert.mode": "upsert", "pk.mode": "record_value"}}
_PARTITIONS, _TASKS = 4, 2
_KEY = ROW.fields[0].name
_BATCH, _LOOK_S, _PATIENCE_S = 2_000, 0.05, 600.0


def run(options: Options) -> Result:
    """Run the cases; psql has its turn after each of ours, with the rows that ours has written."""
    count = options.size(2_000_000, 200_000)
    cases = [case for case in CASES if not options.cases or case in options.cases]
    settings = {PSQL: r"\copy from a file", OURS: f"tasks.max={_TASKS}, all else at its default"}
    result = Result("postgres_sink", "Postgres sink", _method(count), dict.fromkeys(cases, settings))
    runs: dict[tuple[str, str], list[Run]] = {}
    with options.directory() as directory, EmbeddedKafka() as kafka:
        directory.chmod(0o755)
        place = directory / "postgres"
        place.mkdir()
        topic = _filled(kafka.bootstrap_servers, count)
        with running_postgres(place) as server, SIDES[OURS](kafka.bootstrap_servers, directory) as worker:
            for turn in options.turns_of(3):
                for case in cases:
                    table = f"{case}_{turn}"
                    runs.setdefault((case, OURS), []).append(_sink(worker, kafka, server, topic, count, case, table))
                    runs.setdefault((case, PSQL), []).append(_copy(server, place, count, table))
                    figures = ", ".join(f"{side} {runs[case, side][-1].rate:,.0f} rows/s" for side in (OURS, PSQL))
                    say(f"{case:7} {figures}")
    for case in cases:
        rates = {side: [each.rate for each in runs[case, side]] for side in (OURS, PSQL)}
        spent = {OURS: [each.processor_per_million for each in runs[case, OURS]]}
        result.rows.append(Row(f"{case} of rows of ten fields", "rows/s", rates, is_more_better=True, reach="0.6 ×"))
        result.rows.append(Row(f"{case}: {PROCESSOR}", "s", spent))
    return result


def _sink(worker: Side, kafka: EmbeddedKafka, server: Postgres, topic: str, count: int, case: str, table: str) -> Run:
    """1. POST. 2. Wait for the first row. 3. Wait until the offsets are at the end. 4. Count the rows."""
    schema = schema_to_json(ROW, EncodingOptions(False, True))
    config = {
        "connector.class": "PostgresSink", "tasks.max": str(_TASKS), "topics": topic, "table.name.format": table,
        "connection.url": f"jdbc:postgresql://127.0.0.1:{server.port}/postgres", "connection.user": "postgres",
        "auto.create": "true", "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "true", "value.converter.schema.content": json.dumps(schema), **CASES[case],
    }  # fmt: skip
    if case == "upsert":
        config["pk.fields"] = _KEY
    done = f"SELECT coalesce(sum(next_offset), 0) FROM fencepost_offsets WHERE sink = '{table}'"
    spending = Spending(worker.pid, kafka.pid)
    worker.create(table, config)  # 1
    began_at = _until(lambda: server.sql(f"SELECT to_regclass('{table}')").strip() != "")  # 2
    ended_at = _until(lambda: int(server.sql(done)) == count)  # 3
    spent = spending.spent()
    _check(int(server.sql(f"SELECT count(DISTINCT {_KEY}) FROM {table}")), count)  # 4
    _check(int(server.sql(f"SELECT count(*) FROM {table}")), count)
    worker.delete(table)
    return Run.of(count, ended_at - began_at, spent)


def _copy(server: Postgres, place: Path, count: int, table: str) -> Run:
    """Let psql copy the rows into a table with the same columns and keys."""
    file = place / "rows.txt"
    server.sql(rf"\copy {table} to '{file}'")
    server.sql(f"CREATE TABLE {table}_copy (LIKE {table} INCLUDING ALL)")
    began_s = time.monotonic()
    server.sql(rf"\copy {table}_copy from '{file}'")
    took_s = time.monotonic() - began_s
    server.sql(f"DROP TABLE {table}, {table}_copy")
    return Run.of(count, took_s, {})


def _filled(bootstrap: str, count: int) -> str:
    topic = f"rows-{count}"
    Admin({"bootstrap.servers": bootstrap}).topics.create(topic, partitions=_PARTITIONS, replication=1)
    converter = JsonConverter({"schemas.enable": "false"})
    client = LibrdkafkaProducer(producer_conf({"bootstrap.servers": bootstrap, "linger.ms": "20"}).conf)
    for begin in range(0, count, _BATCH):
        rows = list(map(row, range(begin, min(begin + _BATCH, count))))
        for value in converter.from_column(ROW, rows) or ():
            client.produce(topic, value, partition=begin // _BATCH % _PARTITIONS)
    client.flush(120)
    client.drop()
    return topic


def _until(is_so: Callable[[], bool]) -> float:
    began_s = time.monotonic()
    while not is_so():
        if time.monotonic() - began_s > _PATIENCE_S:
            raise ValueError(f"not done within {_PATIENCE_S:.0f} s")
        time.sleep(_LOOK_S)
    return time.monotonic()


def _check(found: int, count: int) -> None:
    if found != count:
        raise ValueError(f"there are {found} rows, not {count}")


def _method(count: int) -> list[str]:
    return [
        f"{count:,} rows of ten fields, as JSON in a topic of {_PARTITIONS} partitions, are written to a table that "
        f"the sink creates, by {_TASKS} tasks, exactly once. The time is from the creation of the table until the "
        "offsets in the database are at the end. Then psql copies the same rows from a file into a table with the same "
        "columns and keys, in one transaction. Everything is on the same machine.",
    ]
