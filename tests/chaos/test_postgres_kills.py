"""The Postgres source under random transactions: its process is killed, its connections are cut, its server crashes.

One of its tables joins in the middle. The rebuilt tables must equal the tables; and the brokers' segments say that no
transaction of the database is in two of Kafka.
"""

import json
import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NamedTuple

import pytest
from bench.whole import Placed, placed_records, split_transactions

from fencepost.builtin.postgres.source.connector import PostgresSource
from fencepost.embedded import EmbeddedKafka
from fencepost.testing.pipeline import Pipeline
from fencepost.testing.verdict import eventually
from support.long_form import IS_LONG
from support.postgres import Postgres, running_postgres

psycopg = pytest.importorskip("psycopg")

FAULTS, CAMPAIGNS, LARGE = (20, 10, 100_000) if IS_LONG else (8, 1, 20_000)
TABLES = ("a", "b", "c")
"""`c` is published when half of the faults are done."""


class SmallChunks(PostgresSource):
    """With a hundred chunks where a user has one."""

    chunk_bytes: ClassVar[int] = 1 << 16


class Workload:
    """Random transactions in a thread, also while the server restarts."""

    def __init__(self, port: int, drawn: random.Random) -> None:
        self._port, self._drawn = port, drawn
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.failure: BaseException | None = None
        self.committed = 0

    def __enter__(self) -> "Workload":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def connected(self) -> Any:
        return psycopg.connect(host="127.0.0.1", port=self._port, user="postgres", dbname="postgres")

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                with self.connected() as connection:
                    while not self._stopped.wait(0.02):
                        self._transaction(connection)
            except psycopg.OperationalError:
                self._stopped.wait(0.1)
            except BaseException as error:
                self.failure = error
                return

    def _transaction(self, connection: Any) -> None:
        try:
            self._statements(connection)
        except psycopg.errors.UniqueViolation:
            connection.rollback()

    def _statements(self, connection: Any) -> None:
        drawn = self._drawn
        for _ in range(drawn.randint(1, 6)):
            is_undone = drawn.random() < 0.2
            if is_undone:
                connection.execute("SAVEPOINT s")
            connection.execute(self._statement().encode())
            if is_undone:
                connection.execute("ROLLBACK TO SAVEPOINT s")
        if drawn.random() < 0.15:
            connection.rollback()
        else:
            connection.commit()
            self.committed += 1

    def _statement(self) -> str:
        table, low = self._drawn.choice(TABLES), self._drawn.randint(1, 3000)
        match self._drawn.randint(0, 9):
            case 0 | 1 | 2:
                return (
                    f"INSERT INTO shop.{table} AS o VALUES ({low}, 0, 'new') ON CONFLICT (id) DO UPDATE SET n = o.n + 1"
                )
            case 3 | 4 | 5:
                return f"UPDATE shop.{table} SET n = n + 1 WHERE id BETWEEN {low} AND {low + 3}"
            case 6:
                return f"DELETE FROM shop.{table} WHERE id BETWEEN {low} AND {low + 2}"
            case 7:
                return f"UPDATE shop.{table} SET id = id + 100000 WHERE id = {low}"
            case 8:
                lock = f"SELECT 1 FROM shop.{table} WHERE id < 50 FOR UPDATE"
                return f"UPDATE shop.{table} SET n = 1 WHERE id = {low}; {lock}"
            case _:
                return f"DELETE FROM shop.{table} WHERE id > 100000 AND id % 7 = {low % 7}"


class Scene:
    """A server with two tables, a workload, and a pipeline that reads them."""

    def __init__(self, server: Postgres, kafka: EmbeddedKafka, seed: int) -> None:
        self.server, self.kafka, self.drawn = server, kafka, random.Random(seed)
        self.name = f"p{seed}"
        self.workload = Workload(server.port, random.Random(seed + 1))
        with self.workload.connected() as connection:
            connection.execute("CREATE SCHEMA shop")
            for table in TABLES:
                connection.execute(f"CREATE TABLE shop.{table} (id int PRIMARY KEY, n int, t text)".encode())
                connection.execute(
                    f"INSERT INTO shop.{table} SELECT i, 0, repeat('x', 1000) FROM generate_series(1, 3000) i".encode()
                )
            connection.execute("CREATE PUBLICATION dbz_publication FOR TABLE shop.a, shop.b")
        config = {
            "database.hostname": "127.0.0.1",
            "database.port": server.port,
            "database.user": "postgres",
            "database.dbname": "postgres",
            "plugin.name": "pgoutput",
            "topic.prefix": self.name,
            "slot.name": self.name,
            "publication.autocreate.mode": "disabled",
            "schema.include.list": "shop",
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "key.converter.schemas.enable": "false",
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "1",
        }
        self.pipeline = Pipeline(SmallChunks, config, kafka=kafka)
        self.topics = [f"{self.name}.shop.{table}" for table in TABLES]

    def strike(self) -> str:
        """Do one fault."""
        kind = self.drawn.choice(("kill", "sever", "restart"))
        if kind == "kill":
            self.pipeline.crash()
        elif kind == "restart":
            self.server.stop("immediate")
            self.server.start()
        else:
            with suppress(psycopg.OperationalError), self.workload.connected() as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'fencepost %'"
                )
        return kind

    def visible(self) -> list[Placed]:
        return [each for topic in self.topics for each in placed_records(self.kafka, topic)]

    def table(self, name: str) -> dict[int, Any]:
        with self.workload.connected() as connection:
            rows = connection.execute(f"SELECT id, to_json(whole) FROM shop.{name} whole".encode()).fetchall()
        return {key: without_nulls(row) for key, row in rows}

    def await_work(self) -> None:
        """Wait until the source is connected: a fault hits nothing before."""
        query = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'fencepost %'"

        def is_connected() -> bool:
            with self.workload.connected() as connection:
                return bool(connection.execute(query).fetchone()[0])

        eventually(is_connected, within_s=120)

    def await_passed(self) -> None:
        """Wait until the slot has passed all that is in the server's log now.

        The verdict reads whole topics, which would take the processors from what it waits for.
        """
        query = "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots WHERE slot_name = %s"
        with self.workload.connected() as connection:
            [end] = connection.execute("SELECT pg_current_wal_lsn()").fetchone()

            def has_passed() -> bool:
                return bool(connection.execute(query, (end, self.name)).fetchone()[0])

            eventually(lambda: self.has_failed() or has_passed(), within_s=900, every_s=1)
        self.pipeline.ensure_runs()

    def has_failed(self) -> bool:
        try:
            self.pipeline.ensure_runs()
        except AssertionError:
            return True
        return False


def without_nulls(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without nulls: a column that was added later is in no earlier record."""
    return {name: value for name, value in row.items() if value is not None}


class Faults(NamedTuple):
    """What is wrong with what a consumer sees."""

    wrong_rows: dict[str, list[int]]
    doubled: list[Any]
    back_in_time: list[Any]
    split: list[int]


def judged(scene: Scene, placed: list[Placed]) -> Faults:
    wrong: dict[str, list[int]] = {}
    doubled: list[Any] = []
    back: list[Any] = []
    whole: dict[int, list[Placed]] = {}
    for table, topic in zip(TABLES, scene.topics, strict=True):
        rows: dict[int, Any] = {}
        seen: set[Any] = set()
        newest: dict[int, int] = {}
        for one in (one for one in placed if one.topic == topic):
            assert one.record.key is not None
            if one.record.value is None:
                continue
            key, value = json.loads(one.record.key)["id"], json.loads(one.record.value)
            source, operation = value["source"], value["op"]
            identity = (key, source["txId"], source["lsn"], operation)
            comes_again = operation in ("r", "c") and key in rows
            doubled += [identity] if identity in seen or comes_again else []
            seen.add(identity)
            back += [identity] if source["lsn"] < newest.get(key, 0) else []
            newest[key] = source["lsn"]
            if source["txId"] is not None:
                whole.setdefault(source["txId"], []).append(one)
            if operation == "d":
                rows.pop(key, None)
            else:
                rows[key] = without_nulls(value["after"])
        now = scene.table(table)
        wrong[table] = sorted(key for key in now.keys() | rows.keys() if now.get(key) != rows.get(key))
    return Faults({t: keys for t, keys in wrong.items() if keys}, doubled, back, split_transactions(whole))


def caught_up(scene: Scene) -> Faults | None:
    """Return the verdict once the topics have what the tables have."""
    found = judged(scene, scene.visible())
    return None if found.wrong_rows else found


@pytest.fixture
def scene(tmp_path: Path, seed: int) -> Iterator[Scene]:
    with ExitStack() as stack:
        directory = stack.enter_context(TemporaryDirectory())
        server = stack.enter_context(running_postgres(Path(directory)))
        kafka = stack.enter_context(EmbeddedKafka(dir=tmp_path / "kafka"))
        yield Scene(server, kafka, seed)


@pytest.mark.chaos
@pytest.mark.parametrize("campaign", range(CAMPAIGNS))
@pytest.mark.timeout(7200)
def test_kills_leave_tables_rebuilt_and_database_transactions_whole(scene: Scene, campaign: int, seed: int) -> None:
    print(f"\nFENCEPOST_CHAOS_SEED={seed} campaign {campaign}")
    scene.drawn = random.Random(f"{seed} {campaign}")
    struck: list[str] = []
    with scene.workload, scene.pipeline as pipeline:
        for number in range(FAULTS):
            scene.await_work()
            threading.Event().wait(scene.drawn.uniform(0, 1.0))
            struck.append(scene.strike())
            if number == FAULTS // 2:
                with scene.workload.connected() as connection:
                    connection.execute("ALTER PUBLICATION dbz_publication ADD TABLE shop.c")
                    connection.execute("ALTER TABLE shop.a ADD COLUMN IF NOT EXISTS more text")
                    rows = f"SELECT i, 5, 'large' FROM generate_series(500000, {500000 + LARGE}) i"
                    connection.execute(f"INSERT INTO shop.b {rows}".encode())
        scene.workload.__exit__()
        scene.await_passed()
        found = eventually(lambda: scene.has_failed() or caught_up(scene), within_s=600)
        pipeline.ensure_runs()
    print(f"{struck=} transactions={scene.workload.committed}")
    assert found == Faults({}, [], [], [])
