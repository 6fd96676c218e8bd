"""Debezium's sources for Postgres, MySQL and MariaDB, real plug-ins, while their processes and databases are killed.

Each row of two tables has a sequence of its own: its versions, its delete, and the tombstone. A snapshot that is cut
short begins again, here as on Kafka Connect: faults come after it.
"""

import contextlib
import functools
import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually, judge
from fencepost.testing.reader import CommittedReader
from fencepost.testing.verdict import Observation, Sequenced
from support.chaos.evidence import Evidence
from support.chaos.java_faults import JavaFault, struck
from support.cluster import LightWorker
from support.debezium import JSON, put_source
from support.host_processes import hosts
from support.long_form import IS_LONG
from support.mariadb import AS_MYSQL, PASSWORD, USER, running_mariadb
from support.postgres import running_postgres
from support.worker import Worker

pytestmark = [pytest.mark.chaos, pytest.mark.skipif(not IS_LONG, reason="FENCEPOST_CHAOS=long")]
WITHIN_S = 240
PASSES = int(os.environ.get("FENCEPOST_CHAOS_PASSES", "4"))
BEFORE, CHANGES = 500, 200
TABLES = ("orders", "items")
DELETED, TOMBSTONE = "deleted", "tombstone"
LARGE_ROWS, MORE_LARGE_ROWS, ROW = 2000, 500, 100_000
_TEXT = {"mysql": "mediumtext", "mariadb": "mediumtext", "postgres": "text"}
_SEQUENCE = "seq from shop.seq_{}_to_{}"
_NUMBERS = {"mysql": _SEQUENCE, "mariadb": _SEQUENCE, "postgres": "seq from generate_series({}, {}) seq"}


class Database(Protocol):
    """A server; `stop` is a crash."""

    port: int

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def sql(self, text: str) -> str: ...


_RUNNING: Mapping[str, Callable[[Path], AbstractContextManager[Database]]] = {
    "mysql": functools.partial(running_mariadb, version=AS_MYSQL),
    "mariadb": running_mariadb,
    "postgres": running_postgres,
}


@pytest.fixture(params=["postgres", "mysql", "mariadb"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def database(kind: str) -> Iterator[Database]:
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory,
        _RUNNING[kind](Path(directory)) as found,
    ):
        if kind == "postgres":
            found.sql("alter system set wal_sender_timeout = '5s'")  # until it gives up a reader that stands still
            found.sql("select pg_reload_conf()")
        found.sql("create schema shop")
        for table in TABLES:
            found.sql(f"create table shop.{table} (id integer primary key, name varchar(60), version integer)")
        found.sql(f"create table shop.documents (id integer primary key, body {_TEXT[kind]})")
        yield found


@pytest.fixture
def worker(kafka: EmbeddedKafka, kind: str, tmp_path: Path) -> Iterator[Worker]:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    put_source(kind, plugins)
    settings = {
        "plugin.path": str(plugins),
        "spark.master": "local[4]",
        "slots.max": "2",
        "task.shutdown.graceful.timeout.ms": "2000",
    }
    with LightWorker(kafka.bootstrap_servers, tmp_path, settings, group=f"{kind}-{os.getpid()}") as running:
        yield running


def config(kind: str, database: Database, bootstrap: str) -> dict[str, str]:
    """Return a config as the documentation of Debezium has it."""
    of_log = {
        "database.user": USER,
        "database.server.id": "4711",
        "connect.keep.alive.interval.ms": "2000",  # when it looks for a database that is gone; else a minute
        "database.include.list": "shop",
        "schema.history.internal.kafka.bootstrap.servers": bootstrap,
        "schema.history.internal.kafka.topic": f"history-{kind}-{database.port}",
    }
    own = {
        "postgres": {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "plugin.name": "pgoutput",
            "database.user": "postgres",
            "database.dbname": "postgres",
            "slot.name": "orders",
        },
        "mysql": {"connector.class": "io.debezium.connector.mysql.MySqlConnector", **of_log},
        "mariadb": {"connector.class": "io.debezium.connector.mariadb.MariaDbConnector", **of_log},
    }
    return own[kind] | {
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": str(database.port),
        "database.password": PASSWORD,
        "topic.prefix": kind,
        "table.include.list": ",".join(f"shop.{table}" for table in TABLES),
        "heartbeat.interval.ms": "500",  # offsets go on without rows, too
        "exactly.once.support": "required",
        **{f"{side}.converter": JSON for side in ("key", "value")},
        **{f"{side}.converter.schemas.enable": "false" for side in ("key", "value")},
        "transforms": "unwrap",
        "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
        "transforms.unwrap.add.fields": "op",
        "transforms.unwrap.delete.tombstone.handling.mode": "rewrite-with-tombstone",
        "errors.restart.enabled": "true",  # Debezium fails when its database does
    }


class Shop:
    """Writes to the tables. `expected` has what must come of each row, by its table and id, in order."""

    def __init__(self, database: Database, drawn: random.Random) -> None:
        self.expected: dict[tuple[str, int], list[int | str]] = {}
        self._database = database
        self._drawn = drawn
        self._living: list[tuple[str, int]] = []
        self._statements = 0

    @property
    def events(self) -> int:
        """How many records must have come."""
        return sum(map(len, self.expected.values()))

    def fill(self, count: int) -> None:
        """Insert rows for the snapshot, before anything else."""
        self._database.sql("; ".join(self._insert(number) for number in range(count)))
        self._statements = count

    def change(self, count: int) -> None:
        """Carry out statements, ten in a transaction: one changes a row of those that there are, one deletes one."""
        for start in range(self._statements, self._statements + count, 10):
            ten = [self._statement(number) for number in range(start, start + 10)]
            self._database.sql("; ".join(["begin", *ten, "commit"]))
        self._statements += count

    def _statement(self, number: int) -> str:
        if number % 10 == 4:
            return self._update()
        return self._delete() if number % 10 == 9 else self._insert(number)

    def _insert(self, number: int) -> str:
        table = self._drawn.choice(TABLES)
        self._living.append((table, number))
        self.expected[table, number] = [1]
        return f"insert into shop.{table} values ({number}, '{table} {number}', 1)"

    def _update(self) -> str:
        table, number = self._drawn.choice(self._living)
        versions = self.expected[table, number]
        versions.append(len(versions) + 1)
        return f"update shop.{table} set version = version + 1 where id = {number}"

    def _delete(self) -> str:
        table, number = self._living.pop(self._drawn.randrange(len(self._living)))
        self.expected[table, number] += [DELETED, TOMBSTONE]
        return f"delete from shop.{table} where id = {number}"


def sighting(record: Observation) -> Sequenced:
    table, number = record.topic.rpartition(".")[2], json.loads(record.key or b"{}")["id"]
    if record.value is None:
        return (table, number), TOMBSTONE
    row = json.loads(record.value)
    assert row["id"] == number
    if row["__deleted"] == "true":
        return (table, number), DELETED
    assert row["name"] == f"{table} {number}"
    return (table, number), row["version"]


@contextlib.contextmanager
def crashed(database: Database) -> Iterator[None]:
    database.stop()
    database.start()
    yield


CRASH = "crash of the database"
FAULTS: tuple[JavaFault | str, ...] = (
    CRASH,
    JavaFault.KILL_HOST,
    JavaFault.KILL_SLOT,
    JavaFault.KILL_WORKER,
    JavaFault.STOP_BOTH,
)
# Postgres gives a replication slot to one reader at a time: a host that goes on keeps it, and its successor waits.
_MORE: Mapping[str, tuple[JavaFault, ...]] = {
    "mysql": (JavaFault.STOP_SLOT,),
    "mariadb": (JavaFault.STOP_SLOT,),
    "postgres": (),
}


@pytest.mark.timeout(300 * len(FAULTS) * PASSES)
def test_debezium_loses_and_doubles_nothing(
    worker: Worker,
    kafka: EmbeddedKafka,
    kind: str,
    database: Database,
    seed: int,
    capfd: pytest.CaptureFixture[str],
) -> None:
    drawn = random.Random(seed)
    shop = Shop(database, drawn)
    of_kind = (*FAULTS, *_MORE[kind])
    faults = [fault for _ in range(PASSES) for fault in drawn.sample(of_kind, len(of_kind))]
    shop.fill(BEFORE)
    with (
        capfd.disabled(),
        contextlib.closing(Evidence(f"debezium-{kind}", seed)) as evidence,
        CommittedReader(kafka.bootstrap_servers, [f"{kind}.shop.{table}" for table in TABLES]) as reader,
    ):
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")

        def arrive() -> None:
            eventually(
                lambda: len(reader.seen()) >= shop.events or _missing(worker, len(reader.seen()), shop.events),
                within_s=WITHIN_S,
            )

        answer = worker.create("orders", config(kind, database, kafka.bootstrap_servers))
        assert answer.status_code == 201, answer.text
        arrive()
        eventually(lambda: worker.task_states("orders") == ["RUNNING"], within_s=WITHIN_S)
        shop.change(CHANGES)
        arrive()  # it streams
        for number, fault in enumerate(faults, 1):
            shop.change(CHANGES // 2)
            began = time.monotonic()
            with struck(worker, fault) if isinstance(fault, JavaFault) else crashed(database):
                shop.change(CHANGES // 2)
                arrive()
                took_s = time.monotonic() - began
            what = fault.value if isinstance(fault, JavaFault) else fault
            evidence.fault(what, "any moment", None, took_s, task_kind="Java")
            print(f"fault {number}: {what}: {took_s:.1f} s to the changes after it", flush=True)
        found = judge(shop.expected, reader.read_all(60), sighting=sighting)
        print(f"{kind}: {found}", flush=True)
        evidence.records, evidence.verdict = shop.events, "clean" if found.is_clean else "anomaly"
    assert found.is_clean, found


def insert_large(database: Database, kind: str, first: int, last: int) -> None:
    """Insert rows of ROW characters, all in one transaction."""
    numbers = _NUMBERS[kind].format(first, last)
    database.sql(
        f"insert into shop.documents select seq, lpad(concat(seq, ''), {ROW}, '0') from (select {numbers}) of_all"
    )


@pytest.mark.timeout(600)
def test_large_rows_of_a_snapshot_and_of_a_transaction_arrive(
    worker: Worker, kafka: EmbeddedKafka, kind: str, database: Database, capfd: pytest.CaptureFixture[str]
) -> None:
    """A poll of Debezium's has up to 2,048 rows, and its queue four times as many: each row is 100 kB here."""
    insert_large(database, kind, 1, LARGE_ROWS)
    with capfd.disabled(), CommittedReader(kafka.bootstrap_servers, [f"{kind}.shop.documents"]) as reader:
        own = {"table.include.list": "shop.documents", "topic.prefix": kind, "errors.restart.enabled": "false"}
        answer = worker.create("documents", config(kind, database, kafka.bootstrap_servers) | own)
        assert answer.status_code == 201, answer.text

        def arrive(count: int) -> None:
            eventually(
                lambda: len(reader.seen()) >= count or _missing(worker, len(reader.seen()), count, "documents"),
                within_s=WITHIN_S,
            )

        arrive(LARGE_ROWS)
        (host,) = hosts(worker)
        insert_large(database, kind, LARGE_ROWS + 1, LARGE_ROWS + MORE_LARGE_ROWS)
        arrive(LARGE_ROWS + MORE_LARGE_ROWS)
        slot = host.parent()
        assert hosts(worker) == [host], "its host has ended meanwhile"
        assert slot is not None
        print(f"\n{kind}: at most {_peak_mb(host.pid)} MB in the host, {_peak_mb(slot.pid)} in its slot", flush=True)
        rows = [json.loads(one.value or b"{}") for one in reader.read_all(60)]
    assert [row["id"] for row in rows] == list(range(1, LARGE_ROWS + MORE_LARGE_ROWS + 1))
    assert all(row["body"] == str(row["id"]).zfill(ROW) for row in rows)


def _peak_mb(pid: int) -> int:
    """Return how much memory a process had at most."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) // 1024


def _missing(worker: Worker, seen: int, total: int, name: str = "orders") -> bool:
    raise AssertionError(f"{seen} of {total} records have arrived: {worker.status(name)}")
