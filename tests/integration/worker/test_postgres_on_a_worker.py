"""The Postgres source on a running worker: a snapshot by several tasks, a stream by one, errors in the status."""

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from fencepost.testing.reader import read_committed
from support.postgres import Postgres, running_postgres
from support.worker import Worker

psycopg = pytest.importorskip("psycopg")
ROWS = 60_000  # of 1,000 bytes: three chunks


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with TemporaryDirectory() as directory, running_postgres(Path(directory)) as found:
        yield found


def _config(server: Postgres, name: str, **more: str) -> dict[str, str]:
    return {
        "connector.class": "PostgresSource",
        "tasks.max": "3",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "postgres",
        "database.dbname": "postgres",
        "plugin.name": "pgoutput",
        "topic.prefix": name,
        "slot.name": "worker",
        "publication.autocreate.mode": "filtered",
        "table.include.list": "public.orders",
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter.schemas.enable": "false",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        **more,
    }


def test_snapshot_is_read_by_several_tasks_and_the_stream_by_one(
    worker: Worker, kafka: EmbeddedKafka, server: Postgres, name: str
) -> None:
    conf = {"bootstrap.servers": kafka.bootstrap_servers}
    with psycopg.connect(host="127.0.0.1", port=server.port, user="postgres", autocommit=True) as sql:
        sql.execute("CREATE TABLE orders (id int PRIMARY KEY, n int, t text)")
        sql.execute(f"INSERT INTO orders SELECT i, 0, repeat('x', 1000) FROM generate_series(1, {ROWS}) i".encode())
        assert worker.create(name, _config(server, name)).status_code == 201
        counts: set[int] = {0}

        def tasks() -> int:
            counts.add(len(worker.status(name).get("tasks", [])))
            return max(counts)

        eventually(lambda: tasks() == 3, within_s=300)
        sql.execute("UPDATE orders SET n = 1 WHERE id <= 10; DELETE FROM orders WHERE id = 11")

        def rows() -> dict[int, Any] | None:
            topic = f"{name}.public.orders"
            if Admin(conf).topics.partitions(topic) is None:
                return None
            found: dict[int, Any] = {}
            reads = 0
            for one in read_committed(conf, topic, 60):
                if one.value is not None and one.key is not None:
                    value = json.loads(one.value)
                    reads += value["op"] == "r"
                    found[json.loads(one.key)["id"]] = value["after"]
            is_whole = reads == ROWS and found[11] is None and all(found[number]["n"] == 1 for number in range(1, 11))
            return found if is_whole else None

        assert len(eventually(rows, within_s=300)) == ROWS
        worker.wait_for_tasks(name, "RUNNING")
        lag = f'connector="{name}",metric="slot-lag-bytes",tags="slot=worker"'
        eventually(lambda: lag in worker.rest.get("/metrics").text, within_s=60)


def test_wrong_password_is_said_in_the_status_and_never_shown(worker: Worker, server: Postgres, name: str) -> None:
    config = _config(server, name) | {"database.user": "missing_role", "database.password": "canary-of-postgres"}
    assert worker.create(name, config).status_code == 201
    trace = worker.wait_for_tasks(name, "FAILED")[0]["trace"]
    assert "missing_role" in trace
    assert "canary" not in trace
