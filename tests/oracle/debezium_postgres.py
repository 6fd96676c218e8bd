"""Records what Debezium makes of Postgres' types: `python tests/oracle/debezium_postgres.py`.

Debezium 3.6.1 reads tables of types × values from a real server, once for each set of settings: a snapshot, then
changes. Kafka's JsonConverter writes its records, with schemas. With them goes all that the envelope here is made of:
the catalog, the rows as COPY writes them, and the messages of pgoutput, from the same server, so that both can be
compared.
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1]))
import psycopg
from bench import peer
from bench.postgres import Postgres, debezium, running_postgres

from fencepost.builtin.postgres.envelope import SESSION
from fencepost.embedded.java import find_java
from fencepost.postgres.catalog import tables
from oracle.java import write

PROGRAM = Path(__file__).with_name("DebeziumRecords.java")
SQL = Path(__file__).with_name("postgres_values")
OUTPUT = Path(__file__).parents[1] / "fixtures" / "debezium-3.6.1" / "postgres.json.gz"
WITHIN_MS = 120_000
SOME = "shop.(numbers|people|large|times|extremes|others|arrays|texts|no_key|zz_done)"
MODES: dict[str, dict[str, str]] = {
    "default": {},
    "double": {
        "decimal.handling.mode": "double", "time.precision.mode": "connect", "interval.handling.mode": "string",
        "hstore.handling.mode": "map", "binary.handling.mode": "base64", "include.unknown.datatypes": "true",
        "provide.transaction.metadata": "true", "tombstones.on.delete": "false", "skipped.operations": "none",
        "heartbeat.interval.ms": "200",
    },
    "string": {
        "decimal.handling.mode": "string", "time.precision.mode": "adaptive_time_microseconds",
        "binary.handling.mode": "hex", "money.fraction.digits": "0", "unavailable.value.placeholder": "missing",
        "schema.name.adjustment.mode": "avro", "field.name.adjustment.mode": "avro", "skipped.operations": "u",
        "message.prefix.include.list": "APP.*,audit",
    },
    "nanoseconds": {
        "time.precision.mode": "nanoseconds", "binary.handling.mode": "base64-url-safe", "topic.delimiter": "_",
        "message.key.columns": "shop.no_key:a,b;shop.people:name", "money.fraction.digits": "3",
        "schema.name.adjustment.mode": "avro_unicode", "field.name.adjustment.mode": "avro_unicode",
        "column.mask.with.5.chars": "shop.people.name,shop.people.secret",
        "column.mask.with.0.chars": "shop.people.email",
        "table.exclude.list": "shop.required",  # Debezium fails at the old row of a delete, with this precision
        "column.truncate.to.4.chars": "shop.people.bio", "column.exclude.list": "shop.people.age,shop.numbers.a_.*",
    },
    "microseconds": {
        "time.precision.mode": "microseconds", "unavailable.value.placeholder": "hex:00ff",
        "column.mask.hash.SHA-256.with.salt.CzQMA0cB5K": "shop.people.name,shop.people.pin",
        "column.mask.hash.v2.SHA-512.with.salt.x": "shop.people.email",
        "column.propagate.source.type": f"{SOME}.*",
        "column.include.list": f"{SOME}.*", "table.include.list": SOME,
    },
    "isostring": {
        "time.precision.mode": "isostring", "datatype.propagate.source.type": ".*numeric,.*varchar",
        "table.include.list": "shop.(times|extremes|numbers|zz_done|people)", "message.prefix.exclude.list": "app.*",
    },
}  # fmt: skip


class Debezium:
    """The connector's task in a JVM of its own."""

    def __init__(self, plugins: Path, log: Path) -> None:
        jars = sorted((plugins / "debezium-connector-postgres").glob("*.jar"))
        classpath = os.pathsep.join([peer.classpath(), *map(str, jars)])
        command = [
            str(find_java().path), *peer.SMALL_JVM, "-Dfile.encoding=UTF-8", "-Duser.timezone=UTC", "-cp", classpath,
            str(PROGRAM),
        ]  # fmt: skip
        self._log = log.open("w")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
        )

    def ask(self, **question: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(question)}\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer["error"][:3000]
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._log.close()


@contextmanager
def session(server: Postgres) -> Iterator[psycopg.Connection[Any]]:
    options = " ".join(f"-c {name}={value}" for name, value in SESSION.items())
    with psycopg.connect(
        host="127.0.0.1", port=server.port, user="postgres", dbname="postgres", autocommit=True, options=options
    ) as connection:
        yield connection


def run(connection: psycopg.Connection[Any], name: str, *numbers: int) -> None:
    text = (SQL / f"{name}.sql").read_text(encoding="utf-8")
    for statement in text.split(";\n"):
        if statement.strip():
            written = statement.format(*numbers) if numbers else statement
            connection.execute(written.encode(), prepare=False)


def catalog(connection: psycopg.Connection[Any]) -> list[dict[str, Any]]:
    return [asdict(table) for table in tables(connection, lambda schema, _: schema == "shop")]


def copied(connection: psycopg.Connection[Any], table: str) -> list[list[str | None]]:
    """Return a table's rows as COPY writes them, read."""
    with connection.cursor() as cursor:
        with cursor.copy(f"copy (select * from {table}) to stdout".encode()) as copy:
            return [list(row) for row in copy.rows()]


def recorded(server: Postgres, asked: Debezium, mode: str, settings: dict[str, str]) -> dict[str, Any]:
    """Return what Debezium writes with these settings, and what there was to read."""
    with session(server) as connection:
        connection.execute("drop schema if exists shop cascade")
        run(connection, "types")
        run(connection, "rows", 0)
        run(connection, "large_rows", 0)
        before = catalog(connection)
        config = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector", "name": mode,
            "plugin.name": "pgoutput", "database.hostname": "127.0.0.1", "database.port": str(server.port),
            "database.user": "postgres", "database.password": "x", "database.dbname": "postgres", "topic.prefix": "pre",
            "slot.name": f"slot_{mode}", "slot.drop.on.stop": "true", "schema.include.list": "shop", **settings,
        }  # fmt: skip
        asked.ask(start=config)
        snapshot = asked.ask(until='"snapshot":"last"', within_ms=WITHIN_MS)["records"]
        rows = {f"{t['schema']}.{t['name']}": copied(connection, f'{t["schema"]}."{t["name"]}"') for t in before}
        streamed = changed(connection, asked)
        asked.ask(stop=True)
        after = catalog(connection)
    config.pop("database.port")
    return {
        "mode": mode, "config": config, "catalog": before, "rows": rows, "catalog_after": after, **streamed,
        "snapshot": snapshot,
    }  # fmt: skip


def changed(connection: psycopg.Connection[Any], asked: Debezium) -> dict[str, Any]:
    """Return the messages of changes, and the records that Debezium makes of them."""
    connection.execute("select pg_create_logical_replication_slot('recorder', 'pgoutput')")
    run(connection, "rows", 100)
    run(connection, "large_rows", 100)
    run(connection, "changes")
    connection.execute("insert into shop.zz_done values (1)")
    records = asked.ask(until="zz_done", within_ms=WITHIN_MS)["records"]
    options = "'proto_version', '1', 'publication_names', 'dbz_publication', 'messages', 'true'"
    found = connection.execute(
        f"select lsn, data from pg_logical_slot_get_binary_changes('recorder', null, null, {options})".encode()
    ).fetchall()
    connection.execute("select pg_drop_replication_slot('recorder')")
    return {
        "messages": [[str(lsn), base64.b64encode(data).decode()] for lsn, data in found],
        "streamed": records,
    }


def cases(modes: dict[str, dict[str, str]], log: Path) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as plugins, tempfile.TemporaryDirectory() as data:
        debezium(Path(plugins))
        asked = Debezium(Path(plugins), log)
        try:
            with running_postgres(Path(data)) as server:
                return [recorded(server, asked, mode, settings) for mode, settings in modes.items()]
        finally:
            asked.close()


def main() -> None:
    chosen = sys.argv[1:] or list(MODES)
    log = Path(tempfile.gettempdir(), "debezium-postgres.log")
    found = cases({mode: MODES[mode] for mode in chosen}, log)
    write(OUTPUT, [{"mode": one.pop("mode")} for one in found], found)


if __name__ == "__main__":
    main()
