"""The audit of a Postgres source: a real database against the topics of its tasks, while both move."""

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Producer

from fencepost.builtin.postgres.source.connector import PostgresSource
from fencepost.cli.connector.audit_scope import source_audit
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.setting.client_settings import range_conf
from fencepost.ledger import database_audit, topic_rows
from fencepost.ledger.database_audit import DatabaseReport
from fencepost.ledger.database_position import LogPosition
from fencepost.testing import Pipeline, eventually
from support.postgres import Postgres

JSON = "org.apache.kafka.connect.json.JsonConverter"
ROWS = 3_000


class Shop:
    """A database with two tables, and the tasks that write them to topics."""

    def __init__(self, server: Postgres, kafka: EmbeddedKafka, name: str, **config: str) -> None:
        self.name, self.kafka = name, kafka
        self._where = {"host": "127.0.0.1", "port": server.port, "user": "postgres", "dbname": "postgres"}
        self._sql = psycopg.connect(**self._where, autocommit=True)  # type: ignore[arg-type]
        self.sql(
            "CREATE SCHEMA shop; "
            "CREATE TABLE shop.orders (id int PRIMARY KEY, n numeric(9, 2), t text, at timestamptz); "
            f"INSERT INTO shop.orders SELECT i, i / 4.0, 'row ' || i, now() FROM generate_series(1, {ROWS}) i; "
            "CREATE TABLE shop.lines (a text, b uuid, n float8, large text, PRIMARY KEY (a, b)); "
            "ALTER TABLE shop.lines ALTER large SET STORAGE EXTERNAL; "
            "INSERT INTO shop.lines SELECT 'é' || i, gen_random_uuid(), i / 3.0 FROM generate_series(1, 500) i"
        )
        self.config = {
            "name": name, "database.hostname": "127.0.0.1", "database.port": str(server.port),
            "database.user": "postgres", "database.dbname": "postgres", "plugin.name": "pgoutput",
            "topic.prefix": name, "slot.name": name, "publication.name": name,
            "publication.autocreate.mode": "filtered", "table.include.list": r"shop\..*",
            "topic.creation.default.partitions": "3", "topic.creation.default.replication.factor": "1",
            "key.converter": JSON, "value.converter": JSON, "heartbeat.interval.ms": "200",
            **{key.replace("__", "."): value for key, value in config.items()},
        }  # fmt: skip
        self.pipeline = Pipeline(PostgresSource, self.config, kafka=kafka)

    def sql(self, text: str) -> None:
        self._sql.execute(text.encode())

    def offsets(self) -> dict[str, Any]:
        """Return the connector's offsets as a worker shows them."""
        found: dict[str, Any] = {}
        for one in self.pipeline.committed("testing-offsets"):
            assert one.key is not None
            name, partition = json.loads(one.key)
            if name == self.name:
                found[json.dumps(partition)] = {"partition": partition, "offset": json.loads(one.value or "null")}
        return {"offsets": list(found.values())}

    def has_position(self) -> bool:
        self.pipeline.ensure_runs()
        return any(len(each["partition"]) == 1 for each in self.offsets()["offsets"])

    def has_joined(self, table: str) -> bool:
        self.pipeline.ensure_runs()
        return any((each["offset"] or {}).get("name") == f"shop.{table}" for each in self.offsets()["offsets"])

    def audit(self, *tables: str, state: Path | None = None, wait_s: float = 300) -> DatabaseReport:
        conf = range_conf(
            {"bootstrap.servers": self.kafka.bootstrap_servers, "isolation.level": "read_committed"}, "a"
        ).conf
        made = source_audit(conf, self.name, self.config, self.offsets, {}, {}, wait_s=wait_s, state=state)
        with closing(made):
            return made.run([self.topic(table) for table in tables])

    def topic(self, table: str) -> str:
        return f"{self.name}.shop.{table}"

    def last(self, key: int) -> Any:
        """Return the last record of an order."""
        records = self.pipeline.committed(self.topic("orders"))
        return [each for each in records if each.key and json.loads(each.key)["payload"] == {"id": key}][-1]

    def plant(self, key: bytes, value: bytes | None, partition: int) -> None:
        producer = Producer({"bootstrap.servers": self.kafka.bootstrap_servers})
        producer.produce(self.topic("orders"), value, key, partition)
        producer.flush()

    def end(self) -> None:
        drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '{}'"
        eventually(lambda: self._sql.execute(drop.format(self.name).encode()), within_s=60)
        self.sql("DROP SCHEMA shop CASCADE")
        self.sql(f"DROP PUBLICATION IF EXISTS {self.name}")
        self._sql.close()

    def move(self, stopped: threading.Event) -> None:
        """Change rows: of several keys in a transaction, and some that are rolled back."""
        with psycopg.connect(**self._where) as connection:  # type: ignore[arg-type]
            number = 0
            while not stopped.wait(0.005):
                number += 1
                low = number * 7 % ROWS
                connection.execute(
                    f"UPDATE shop.orders SET n = n + 1 WHERE id BETWEEN {low} AND {low + 3}; "
                    f"DELETE FROM shop.orders WHERE id = {low + 5}; "
                    f"INSERT INTO shop.orders VALUES ({low + 5}, 1, 'again') ON CONFLICT DO NOTHING; "
                    f"UPDATE shop.lines SET n = -n WHERE a = 'é{low % 500}'".encode()
                )
                if number % 5:
                    connection.commit()
                else:
                    connection.rollback()


@pytest.fixture
def shop(sink_server: Postgres, kafka: EmbeddedKafka, request: pytest.FixtureRequest) -> Iterator[Shop]:
    given = getattr(request, "param", {})
    found = Shop(sink_server, kafka, f"audit_{abs(hash(request.node.name)) % 10**8}", **given)
    with found.pipeline:
        eventually(found.has_position, within_s=300)
        yield found
    found.end()


def test_rows_are_verified_while_database_and_connector_move(shop: Shop) -> None:
    stopped = threading.Event()
    moving = threading.Thread(target=shop.move, args=(stopped,))
    moving.start()
    try:
        for _ in range(4):
            report = shop.audit()
            assert (report.differences, report.notes) == ([], [])
            assert report.is_complete
            assert all(table.verified == table.rows > 0 for table in report.tables)
    finally:
        stopped.set()
        moving.join()


BARE = {"value__converter__schemas__enable": "false"}


@pytest.mark.parametrize("shop", [{}, BARE], ids=["schemas", "bare"], indirect=True)
def test_row_that_is_planted_in_the_topic_is_named(shop: Shop) -> None:
    assert shop.audit().is_complete
    changed, removed = shop.last(10), shop.last(11)
    value = json.loads(changed.value)
    row = value.get("payload", value)["after"]
    row["t"] = "planted"
    shop.plant(changed.key, json.dumps(value).encode(), changed.partition)
    shop.plant(removed.key, None, removed.partition)
    ghost = json.loads(changed.key)
    ghost["payload"]["id"] = row["id"] = 999_999
    shop.plant(json.dumps(ghost).encode(), json.dumps(value).encode(), 0)
    report = shop.audit("orders")
    found = {(each.kind.value, dict(each.key)["id"], *each.columns) for each in report.differences}
    assert found == {
        ("differs", "10", "t"),
        ("missing in the topic", "11"),
        ("missing in the table", "999999"),
    }
    assert report.tables[0].differing == 3
    assert report.tables[0].verified == ROWS - 2


def test_row_that_is_changed_without_the_log_is_named(shop: Shop) -> None:
    """A session that replicates nothing changes rows: no decoding shows them."""
    assert shop.audit().is_complete
    shop.sql(f"ALTER PUBLICATION {shop.name} DROP TABLE shop.orders")
    shop.sql("UPDATE shop.orders SET n = n + 1 WHERE id = 7; DELETE FROM shop.orders WHERE id = 8")
    shop.sql("INSERT INTO shop.orders VALUES (1000000, 1)")
    eventually(lambda: shop.audit("lines", wait_s=60).is_complete, within_s=120)
    shop.sql(f"ALTER PUBLICATION {shop.name} ADD TABLE shop.orders")
    found = {(each.kind.value, dict(each.key)["id"], *each.columns) for each in shop.audit().differences}
    assert found == {("differs", "7", "n"), ("missing in the table", "8"), ("missing in the topic", "1000000")}


def test_row_without_its_large_value_is_compared_in_the_other_columns(shop: Shop) -> None:
    shop.sql("UPDATE shop.lines SET large = (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 300) i)")
    shop.sql("UPDATE shop.lines SET n = n + 1")
    report = shop.audit("lines")
    assert report.differences == []
    assert (report.tables[0].others, report.is_complete) == (500, False)


def test_audit_that_was_stopped_goes_on_where_it_was(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    assert shop.audit().is_complete
    monkeypatch.setattr(LogPosition, "begin", _stop)
    with pytest.raises(KeyboardInterrupt):
        shop.audit(state=state)
    monkeypatch.undo()
    shop.sql("DELETE FROM shop.orders WHERE id < 100; UPDATE shop.orders SET n = 0 WHERE id < 200")
    read: list[int] = []
    original = topic_rows.read_log

    def counted(*args: Any) -> Any:
        for piece in original(*args):
            read.append(len(piece))
            yield piece

    monkeypatch.setattr(topic_rows, "read_log", counted)
    assert shop.audit(state=state).is_complete
    assert sum(read) == 99 * 2 + 100
    assert not state.exists()


def test_change_that_a_stopped_audit_left_out_counts_in_the_next(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shop.audit().is_complete
    original = LogPosition.reached

    def reached(*args: Any) -> Any:
        shop.sql("UPDATE shop.orders SET t = 'after the snapshot' WHERE id = 10")
        eventually(lambda: b"after the snapshot" in shop.last(10).value, within_s=300)
        return original(*args)

    monkeypatch.setattr(LogPosition, "reached", reached)
    monkeypatch.setattr(database_audit.DatabaseAudit, "_compared", _stop)
    with pytest.raises(KeyboardInterrupt):
        shop.audit(state=tmp_path / "state")
    monkeypatch.undo()
    report = shop.audit(state=tmp_path / "state")
    assert (report.differences, report.is_complete) == ([], True)


def test_table_that_is_not_read_yet_is_noted_without_differences(shop: Shop) -> None:
    """A transaction that has written keeps the connector from making the plan for the table."""
    with psycopg.connect(**shop._where) as waiting:  # type: ignore[arg-type]
        waiting.execute("SELECT pg_current_xact_id()")
        shop.sql("CREATE TABLE shop.later (id int PRIMARY KEY); INSERT INTO shop.later VALUES (1)")
        shop.sql(f"ALTER PUBLICATION {shop.name} ADD TABLE shop.later")
        later = {table.table: table for table in shop.audit().tables}["shop.later"]
        assert (later.differences, later.notes) == ([], [database_audit._NOT_READ])
    shop.sql("INSERT INTO shop.later VALUES (2)")
    eventually(lambda: shop.has_joined("later") and shop.audit("later").is_complete, within_s=300)


def _stop(*_: Any) -> None:
    raise KeyboardInterrupt


def test_position_that_the_connector_does_not_reach_is_noted(shop: Shop) -> None:
    assert shop.audit().is_complete
    shop.pipeline.__exit__(None, None, None)
    shop.sql("UPDATE shop.orders SET n = n + 1")
    report = shop.audit(wait_s=0.5)
    assert "has not committed" in report.notes[0]
    assert (report.tables, report.is_complete) == ([], False)
    shop.pipeline.__enter__()
    eventually(lambda: shop.audit(wait_s=60).is_complete, within_s=120)
