"""Debezium's source for Postgres, a real Java plug-in, while its processes and its database are killed.

A snapshot that is cut short begins again, here as on Kafka Connect: faults come after it.
"""

import json
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually, judge
from fencepost.testing.reader import CommittedReader
from fencepost.testing.verdict import Observation, Sequenced
from support.cluster import LightWorker
from support.long_form import IS_LONG
from support.postgres import Postgres, debezium, running_postgres
from support.worker import Worker

pytestmark = [pytest.mark.chaos, pytest.mark.skipif(not IS_LONG, reason="FENCEPOST_CHAOS=long")]
WITHIN_S = 240
BEFORE, ROUNDS, ROWS = 500, 8, 200


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory,
        running_postgres(Path(directory)) as found,
    ):
        found.sql("create table orders (id serial primary key, name text)")
        yield found


@pytest.fixture
def worker(kafka: EmbeddedKafka, tmp_path: Path) -> Iterator[Worker]:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    debezium(plugins)
    settings = {"plugin.path": str(plugins), "spark.master": "local[4]", "slots.max": "2"}
    with LightWorker(kafka.bootstrap_servers, tmp_path, settings, group=f"debezium-{os.getpid()}") as running:
        yield running


def config(postgres: Postgres, prefix: str) -> dict[str, str]:
    """Return a config as the documentation of Debezium has it."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "plugin.name": "pgoutput",
        "database.hostname": "127.0.0.1",
        "database.port": str(postgres.port),
        "database.user": "postgres",
        "database.password": "nothing",
        "database.dbname": "postgres",
        "topic.prefix": prefix,
        "table.include.list": "public.orders",
        "slot.name": "orders",
        "exactly.once.support": "required",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "transforms": "unwrap",
        "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
        "transforms.unwrap.add.fields": "op",
    }


def sighting(record: Observation) -> Sequenced:
    row = json.loads(record.value or b"{}")
    assert row["name"] == f"order {row['id']}"
    return "orders", row["id"]


def insert(postgres: Postgres, first: int, count: int) -> None:
    """Insert rows, ten in a transaction."""
    for start in range(first, first + count, 10):
        rows = ",".join(f"({n}, 'order {n}')" for n in range(start, start + 10))
        postgres.sql(f"insert into orders (id, name) values {rows}")


def strike(worker: Worker, postgres: Postgres, number: int) -> None:
    """Kill the host, the slot, the database, or the worker with all below it."""
    slot = next(iter(worker.slots().values()))
    match number % 4:
        case 0:
            for child in psutil.Process(slot).children(recursive=True):
                child.kill()
        case 1:
            os.kill(slot, signal.SIGKILL)
        case 2:
            postgres.stop()
            postgres.start()
        case 3:
            worker.kill()
            worker.start()


def test_debezium_loses_and_doubles_nothing(worker: Worker, kafka: EmbeddedKafka, postgres: Postgres) -> None:
    insert(postgres, 1, BEFORE)
    given = config(postgres, "shop") | {"errors.restart.enabled": "true"}  # Debezium fails when its database does
    answer = worker.create("orders", given)
    assert answer.status_code == 201, answer.text
    total = BEFORE
    with CommittedReader(kafka.bootstrap_servers, ["shop.public.orders"]) as reader:
        eventually(lambda: len(reader.seen()) >= total, within_s=WITHIN_S)
        eventually(lambda: reader.seen() and worker.task_states("orders") == ["RUNNING"], within_s=WITHIN_S)
        insert(postgres, total + 1, ROWS)
        total += ROWS
        eventually(lambda: len(reader.seen()) >= total, within_s=WITHIN_S)  # it streams
        for number in range(ROUNDS):
            insert(postgres, total + 1, ROWS // 2)
            strike(worker, postgres, number)
            insert(postgres, total + 1 + ROWS // 2, ROWS // 2)
            total += ROWS
            eventually(lambda: len(reader.seen()) >= total, within_s=WITHIN_S)  # noqa: B023
        found = judge({"orders": list(range(1, total + 1))}, reader.read_all(60), sighting=sighting)
    print(found)
    assert found.is_clean, found
