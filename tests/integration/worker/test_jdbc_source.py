"""JdbcSource on a running worker, over real databases: late commits, a kill, a server that is away, and secrets."""

import json
import sqlite3
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from file_connector import created, settings_of_tests

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually
from support.jdbc import spark_jars
from support.mariadb import PASSWORD, USER, MariaDb, running_mariadb
from support.postgres import Postgres, running_postgres
from support.worker import Worker

pytestmark = pytest.mark.timeout(3600)
WITHIN_S = 600
SECRET = "pw-of-the-reader"
Values = Callable[..., list[str]]


@pytest.fixture(scope="module")
def worker(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A worker whose Spark has the drivers, and whose JVM is in a time zone with daylight saving time."""
    settings = settings_of_tests() | {"spark.jars": spark_jars()}
    settings["spark.driver.extraJavaOptions"] = "-Duser.timezone=America/New_York"
    directory = tmp_path_factory.mktemp("worker")
    with Worker(kafka.bootstrap_servers, directory, settings, group=f"jdbc-{uuid.uuid4().hex[:6]}") as running:
        yield running


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory,
        running_postgres(Path(directory)) as found,
    ):
        yield found


@pytest.fixture
def mariadb() -> Iterator[MariaDb]:
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory,
        running_mariadb(Path(directory)) as found,
    ):
        yield found


def config(url: str, prefix: str, mode: str, **more: str) -> dict[str, Any]:
    """Return a config; two underscores in names of `more` stand for a dot."""
    return {
        "connector.class": "JdbcSource",
        "connection.url": url,
        "mode": mode,
        "topic.prefix": prefix,
        "poll.interval.ms": "300",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        **{key.replace("__", "."): value for key, value in more.items()},
    }


def offsets(worker: Worker, name: str) -> dict[str, Any]:
    """Return the connector's offsets by table."""
    found = worker.rest.get(f"/connectors/{name}/offsets").json()["offsets"]
    return {one["partition"].get("table", "query"): one["offset"] for one in found}


def ids(values: Values, topic: str, at_least: int) -> list[int]:
    return [json.loads(value)["id"] for value in values(topic, at_least=at_least, within_s=WITHIN_S)]


def at_places(**places: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"partition": {"table": name.replace("__", ".")}, "offset": place} for name, place in places.items()]


class Session:
    """A client of a database that reads statements, one line each, while it runs."""

    def __init__(self, *command: str) -> None:
        self._client = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)

    def say(self, line: str) -> None:
        assert self._client.stdin is not None
        self._client.stdin.write(f"{line}\n")
        self._client.stdin.flush()

    def end(self, line: str) -> None:
        """Say a last line, and return when it is carried out."""
        self.say(line)
        assert self._client.stdin is not None
        self._client.stdin.close()
        assert self._client.wait(WITHIN_S) == 0


def test_late_commits_of_postgres_arrive_once_by_id(
    worker: Worker, name: str, postgres: Postgres, values: Values
) -> None:
    """The transaction with the smaller id commits last."""
    postgres.sql("CREATE TABLE orders (id bigserial PRIMARY KEY, word text)")
    postgres.sql("CREATE TABLE polls (id bigserial PRIMARY KEY)")
    url = f"jdbc:postgresql://127.0.0.1:{postgres.port}/postgres"
    access = {"connection__user": "postgres", "connection__password": SECRET}
    places = at_places(public__orders={"incrementing": 0}, public__polls={"incrementing": 0})
    created(worker, name, config(url, f"{name}-", "incrementing", **access), initial_offsets=places)
    postgres.sql("INSERT INTO orders (word) VALUES ('a')")
    assert ids(values, f"{name}-orders", 1) == [1]
    late = Session("psql", "-h", "127.0.0.1", "-p", str(postgres.port), "-U", "postgres", "-q")
    late.say("BEGIN; INSERT INTO orders (word) VALUES ('late');")
    eventually(lambda: _idle(postgres) == 1, within_s=WITHIN_S)
    postgres.sql("INSERT INTO orders (word) VALUES ('early')")
    for number in (1, 2):
        postgres.sql("INSERT INTO polls DEFAULT VALUES")
        assert ids(values, f"{name}-polls", number)[-1] == number  # a poll has seen the later id
    assert offsets(worker, name)["public.orders"] == {"incrementing": 1}
    late.end("COMMIT;")
    assert ids(values, f"{name}-orders", 3) == [1, 2, 3]
    assert ids(values, f"{name}-polls", 2) == [1, 2]
    assert offsets(worker, name) == {"public.orders": {"incrementing": 3}, "public.polls": {"incrementing": 2}}
    postgres.sql(
        "BEGIN; INSERT INTO orders (word) VALUES ('rolled back'); ROLLBACK; INSERT INTO orders (word) VALUES ('b')"
    )
    assert ids(values, f"{name}-orders", 4) == [1, 2, 3, 5]
    assert SECRET not in worker.log_text()
    assert SECRET not in worker.rest.get(f"/connectors/{name}").text


def _idle(postgres: Postgres) -> int:
    return int(postgres.sql("SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'"))


def test_late_commits_of_postgres_arrive_once_by_time_and_after_an_outage(
    worker: Worker, name: str, postgres: Postgres, values: Values
) -> None:
    postgres.sql(
        "CREATE TABLE orders (id bigserial PRIMARY KEY, at timestamptz(0) NOT NULL DEFAULT now(), wall timestamp "
        "DEFAULT '2026-07-01 12:00:00.123456', price numeric(9,2) DEFAULT 1.5, number numeric(9,0) DEFAULT 7)"
    )
    url = f"jdbc:postgresql://127.0.0.1:{postgres.port}/postgres"
    more = {"timestamp__column__name": "at", "db__timezone": "Europe/Berlin", "numeric__mapping": "best_fit"}
    created(worker, name, config(url, f"{name}-", "timestamp+incrementing", connection__user="postgres", **more))
    late = Session("psql", "-h", "127.0.0.1", "-p", str(postgres.port), "-U", "postgres", "-q")
    late.say("BEGIN; INSERT INTO orders DEFAULT VALUES;")
    eventually(lambda: _idle(postgres) == 1, within_s=WITHIN_S)
    postgres.sql("INSERT INTO orders SELECT FROM generate_series(1, 5)")
    late.end("COMMIT;")
    found = values(f"{name}-orders", at_least=6, within_s=WITHIN_S)
    assert sorted(json.loads(value)["id"] for value in found) == [1, 2, 3, 4, 5, 6]
    first = json.loads(found[0])
    assert (first["wall"], first["price"], first["number"]) == ("2026-07-01T06:00:00.123456-04:00", 1.5, 7)
    postgres.stop()
    (task,) = eventually(lambda: _with_trace(worker, name, "connection.url="), within_s=WITHIN_S)
    assert task["state"] == "RUNNING"
    postgres.start()
    postgres.sql("UPDATE orders SET at = now() WHERE id = 2")
    assert sorted(ids(values, f"{name}-orders", 7)) == [1, 2, 2, 3, 4, 5, 6]
    assert eventually(lambda: offsets(worker, name)["public.orders"]["incrementing"] == 2, within_s=WITHIN_S)


def _with_trace(worker: Worker, name: str, text: str) -> list[dict[str, Any]]:
    tasks = worker.status(name).get("tasks", [])
    return [task for task in tasks if text in task.get("trace", "")]


def test_late_commits_of_mariadb_arrive_once(worker: Worker, name: str, mariadb: MariaDb, values: Values) -> None:
    mariadb.sql(
        "CREATE DATABASE shop; CREATE TABLE shop.orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, at TIMESTAMP(6) NOT "
        "NULL DEFAULT '2026-07-01 12:00:00.123456', `a word` TEXT)"
    )
    mariadb.sql("CREATE TABLE shop.polls (id INT AUTO_INCREMENT PRIMARY KEY)")
    url = f"jdbc:mariadb://127.0.0.1:{mariadb.port}/shop"
    access = {"connection__user": USER, "connection__password": PASSWORD, "incrementing__delay__interval__ms": "600000"}
    places = at_places(shop__orders={"incrementing": 0}, shop__polls={"incrementing": 0})
    created(worker, name, config(url, f"{name}-", "incrementing", **access), initial_offsets=places)
    client = ["mariadb", "--no-defaults", "--host=127.0.0.1", f"--port={mariadb.port}", f"--user={USER}"]
    late = Session(*client, f"--password={PASSWORD}", "shop")
    late.say("BEGIN; INSERT INTO orders (`a word`) VALUES ('late');")
    started = "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_rows_modified > 0"
    eventually(lambda: int(mariadb.sql(started)) == 1, within_s=WITHIN_S)
    mariadb.sql("INSERT INTO shop.orders (`a word`) VALUES ('early'); INSERT INTO shop.polls VALUES ()")
    assert ids(values, f"{name}-polls", 1) == [1]  # a poll has seen the later id
    mariadb.sql("INSERT INTO shop.polls VALUES ()")
    assert ids(values, f"{name}-polls", 2) == [1, 2]
    assert offsets(worker, name)["shop.orders"] == {"incrementing": 0}
    late.end("COMMIT;")
    found = [json.loads(value) for value in values(f"{name}-orders", at_least=2, within_s=WITHIN_S)]
    assert [(row["id"], row["a word"]) for row in found] == [(1, "late"), (2, "early")]
    assert {row["at"] for row in found} == {mariadb_moment(mariadb)}


def mariadb_moment(mariadb: MariaDb) -> str:
    """Return the moment of the rows' TIMESTAMP, as JSON in the worker's time zone has it."""
    seconds = int(float(mariadb.sql("SELECT UNIX_TIMESTAMP(at) FROM shop.orders LIMIT 1")))
    hours = (seconds - 1_782_907_200) // 3600  # later than noon in UTC
    return f"2026-07-01T{8 + hours:02}:00:00.123456-04:00"


def test_query_is_loaded_as_a_whole_at_each_interval(worker: Worker, name: str, tmp_path: Path, values: Values) -> None:
    database = tmp_path / "shop.db"
    with closing(sqlite3.connect(database)) as shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT, at DATETIME)")
        shop.executemany("INSERT INTO orders VALUES (?, '2026-07-01 12:00:00')", [(1,), (5_000_000_000,)])
        shop.commit()
    query = {"query": "SELECT id, at FROM orders", "poll__interval__ms": "3600000", "key__field": "id"}
    created(worker, name, config(f"jdbc:sqlite:{database}", name, "bulk", **query))
    found = [json.loads(value) for value in values(name, at_least=2, within_s=WITHIN_S)]
    assert sorted(row["id"] for row in found) == [1, 5_000_000_000]
    assert {row["at"] for row in found} == {"2026-07-01 12:00:00"}
    assert eventually(lambda: offsets(worker, name)["query"]["load"] == 1, within_s=WITHIN_S)


def test_each_row_arrives_once_when_the_worker_is_killed(
    worker: Worker, name: str, tmp_path: Path, values: Values
) -> None:
    database, rows, later = tmp_path / "shop.db", 20_000, 500
    with closing(sqlite3.connect(database)) as shop:
        shop.execute("PRAGMA journal_mode = WAL")
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT, word TEXT)")
        shop.executemany("INSERT INTO orders (word) VALUES (?)", [("x" * 100,) for _ in range(rows)])
        shop.commit()
        more = {"split__rows__max": "1000", "table__whitelist": "orders"}
        created(worker, name, config(f"jdbc:sqlite:{database}", f"{name}-", "incrementing", **more))
        first = len(values(f"{name}-orders", at_least=1, within_s=WITHIN_S))
        worker.kill()
        print(f"killed when {first} of {rows} rows were there")
        assert first < rows
        shop.executemany("INSERT INTO orders (word) VALUES (?)", [("y",) for _ in range(later)])
        shop.commit()
    worker.start()
    assert ids(values, f"{name}-orders", rows + later) == list(range(1, rows + later + 1))
    assert eventually(lambda: offsets(worker, name) == {"orders": {"incrementing": rows + later}}, within_s=WITHIN_S)
    assert len(values(f"{name}-orders")) == rows + later
