"""Debezium's sources for Postgres, MySQL and MariaDB, real plug-ins, while their processes and databases are killed.

A snapshot that is cut short begins again, here as on Kafka Connect: faults come after it.
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
BEFORE, ROWS = 500, 200
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
        found.sql("create table shop.orders (id integer primary key, name varchar(60))")
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
        "table.include.list": "shop.orders",
        "heartbeat.interval.ms": "500",  # offsets go on without rows, too
        "exactly.once.support": "required",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        "transforms": "unwrap",
        "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
        "transforms.unwrap.add.fields": "op",
        "errors.restart.enabled": "true",  # Debezium fails when its database does
    }


def sighting(record: Observation) -> Sequenced:
    row = json.loads(record.value or b"{}")
    assert row["name"] == f"order {row['id']}"
    return "orders", row["id"]


def insert(database: Database, first: int, count: int) -> None:
    """Insert rows, ten in a transaction."""
    for start in range(first, first + count, 10):
        rows = ",".join(f"({n}, 'order {n}')" for n in range(start, start + 10))
        database.sql(f"insert into shop.orders (id, name) values {rows}")


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
    drawn, total = random.Random(seed), BEFORE
    of_kind = (*FAULTS, *_MORE[kind])
    faults = [fault for _ in range(PASSES) for fault in drawn.sample(of_kind, len(of_kind))]
    insert(database, 1, BEFORE)
    with (
        capfd.disabled(),
        contextlib.closing(Evidence(f"debezium-{kind}", seed)) as evidence,
        CommittedReader(kafka.bootstrap_servers, [f"{kind}.shop.orders"]) as reader,
    ):
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")

        def arrive() -> None:
            eventually(
                lambda: len(reader.seen()) >= total or _missing(worker, len(reader.seen()), total), within_s=WITHIN_S
            )

        answer = worker.create("orders", config(kind, database, kafka.bootstrap_servers))
        assert answer.status_code == 201, answer.text
        arrive()
        eventually(lambda: worker.task_states("orders") == ["RUNNING"], within_s=WITHIN_S)
        insert(database, total + 1, ROWS)
        total += ROWS
        arrive()  # it streams
        for number, fault in enumerate(faults, 1):
            insert(database, total + 1, ROWS // 2)
            began = time.monotonic()
            with struck(worker, fault) if isinstance(fault, JavaFault) else crashed(database):
                insert(database, total + 1 + ROWS // 2, ROWS // 2)
                total += ROWS
                arrive()
                took_s = time.monotonic() - began
            what = fault.value if isinstance(fault, JavaFault) else fault
            evidence.fault(what, "any moment", None, took_s, door="Java")
            print(f"fault {number}: {what}: {took_s:.1f} s to the rows after it", flush=True)
        found = judge({"orders": list(range(1, total + 1))}, reader.read_all(60), sighting=sighting)
        print(f"{kind}: {found}", flush=True)
        evidence.records, evidence.verdict = total, "clean" if found.is_clean else "anomaly"
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
    raise AssertionError(f"{seen} of {total} rows have arrived: {worker.status(name)}")
