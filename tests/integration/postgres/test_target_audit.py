"""The audit of a Postgres sink: the tables of a real database against the topics of its tasks, while both move."""

import itertools
import threading
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from typer.testing import CliRunner

from fencepost.api import FLOAT64, INT32, INT64, STRING, FatalError, Schema, SchemaType, decimal
from fencepost.builtin.converter.json import JsonConverter
from fencepost.builtin.postgres.sink.task import PostgresSink
from fencepost.cli.connector.audit_scope import target_audit
from fencepost.cli.main import app
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.setting.client_settings import range_conf
from fencepost.ledger import topic_rows
from fencepost.ledger.database_audit import DatabaseReport
from fencepost.ledger.database_position import StoredPosition
from fencepost.testing import Pipeline, eventually
from support.http_answers import Answer, HttpAnswers
from support.postgres import Postgres
from support.postgres_sink import DELETING, sql
from support.postgres_sink_values import VALUES, debezium

JSON = "org.apache.kafka.connect.json.JsonConverter"
PARTITIONS = 3
KEY = Schema.struct({"id": INT32})
ROW = Schema.struct({"id": INT32, "name": STRING.optional(), "price": decimal(2, 9).optional(), "n": FLOAT64})
_numbers = itertools.count(1)


def row(key: int, name: str | None = "row") -> dict[str, Any]:
    return {"id": key, "name": f"{name} {key}", "price": Decimal(key) / 4, "n": key / 3}


class Target:
    """A topic, the tasks of a sink that writes it to a table of the same name, and its audit."""

    def __init__(self, server: Postgres, kafka: EmbeddedKafka, name: str, **config: str) -> None:
        self.name, self.server, self.kafka = name, server, kafka
        self.config = {
            "name": name, "topics": name, **DELETING, "key.converter": JSON, "value.converter": JSON,
            "connection.url": f"jdbc:postgresql://127.0.0.1:{server.port}/postgres", "connection.user": "postgres",
            **{key.replace("__", "."): value for key, value in config.items()},
        }  # fmt: skip
        self.topics = Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics
        self.topics.create(name, partitions=PARTITIONS, replication=1)
        self.producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 5})
        self.pipeline = Pipeline(PostgresSink, self.config, kafka=kafka, tasks=2)

    def put(self, key: int, value: Any, schema: Schema | None = ROW) -> None:
        """Write a row; bytes as they are."""
        converter = JsonConverter({"schemas.enable": str(schema is not None)})
        is_raw = value is None or isinstance(value, bytes)
        data = value if is_raw else converter.from_connect_data("t", schema, value)
        named = JsonConverter({"schemas.enable": "true"}).from_connect_data("t", KEY, {"id": key})
        self.producer.produce(self.name, data, named, partition=key % PARTITIONS)

    def settle(self) -> None:
        """Wait until the sink has written everything."""
        assert self.producer.flush(60) == 0
        eventually(lambda: self.pipeline._life.failure or self.has_all(), within_s=300)
        self.pipeline.ensure_runs()

    def has_all(self) -> bool:
        ends = Admin({"bootstrap.servers": self.kafka.bootstrap_servers}).offsets.ends(
            [(self.name, number) for number in range(PARTITIONS)], read_committed=True
        )
        topic = self.topics.get(self.name)
        assert topic is not None
        return self.offsets(topic.id) == {number: end for (_, number), end in ends.items() if end}

    def offsets(self, id_: str) -> dict[int, int]:
        if sql(self.server, "SELECT to_regclass('fencepost_offsets')") == [(None,)]:
            return {}
        query = "SELECT partition, next_offset FROM fencepost_offsets WHERE sink = '{}' AND topic_id = '{}'"
        return {number: end for number, end in sql(self.server, query.format(self.name, id_)) if end}

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        return sql(self.server, text.format(t=f'"{self.name}"'))

    def audit(self, state: Path | None = None, **config: str) -> DatabaseReport:
        servers = {"bootstrap.servers": self.kafka.bootstrap_servers, "isolation.level": "read_committed"}
        given = {**self.config, **{key.replace("__", "."): value for key, value in config.items()}}
        with closing(target_audit(range_conf(servers, "a").conf, self.name, given, {}, {}, state=state)) as made:
            return made.run()

    def move(self, stopped: threading.Event) -> None:
        """Write rows and tombstones."""
        for number in itertools.count():
            if stopped.wait(0.001):
                break
            key = number * 7 % 1_000
            self.put(key, None if number % 5 == 0 else row(key, f"move {number}"))


@pytest.fixture
def target(sink_server: Postgres, kafka: EmbeddedKafka, request: pytest.FixtureRequest) -> Iterator[Target]:
    given = dict(getattr(request, "param", {}))
    columns = given.pop("columns", None)
    found = Target(sink_server, kafka, f"target_{next(_numbers)}", **given)
    if columns is not None:
        found.sql(f"CREATE TABLE {{t}} ({columns})")
    with found.pipeline:
        yield found
        found.producer.flush(60)
    found.sql("DROP TABLE IF EXISTS {t}")


def filled(target: Target, count: int = 1_000) -> Target:
    for key in range(count):
        target.put(key, row(key))
    target.settle()
    return target


def found_in(report: DatabaseReport) -> set[tuple[str, ...]]:
    return {(each.kind.value, dict(each.key)["id"], *each.columns) for each in report.differences}


def test_rows_are_verified_while_producers_and_sink_move(target: Target) -> None:
    filled(target)
    stopped = threading.Event()
    moving = threading.Thread(target=target.move, args=(stopped,))
    moving.start()
    try:
        for _ in range(5):
            report = target.audit()
            assert (report.differences, report.notes, report.tables[0].notes) == ([], [], [])
            assert report.is_complete
            assert all(table.verified == table.rows > 0 for table in report.tables)
    finally:
        stopped.set()
        moving.join()


def test_rows_that_sql_changes_are_named(target: Target) -> None:
    filled(target)
    target.put(20, None)
    target.settle()
    assert target.audit().is_complete
    target.sql("UPDATE {t} SET n = n + 1 WHERE id = 10; DELETE FROM {t} WHERE id = 11")
    target.sql("INSERT INTO {t} VALUES (1000000, 'planted', 1, 2), (20, 'deleted', 1, 2)")
    report = target.audit()
    assert found_in(report) == {
        ("differs", "10", "n"),
        ("missing in the table", "11"),
        ("missing in the topic", "1000000"),
        ("missing in the topic", "20"),
    }
    assert (report.tables[0].differing, report.tables[0].verified) == (4, 997)


def test_rows_of_a_topic_that_is_created_again_are_noted(target: Target) -> None:
    filled(target, 100)
    target.topics.delete([target.name])
    eventually(lambda: target.topics.get(target.name) is None, within_s=60)
    target.topics.create(target.name, partitions=PARTITIONS, replication=1)
    for key in range(10):
        target.put(key, row(key, "again"))
    target.settle()
    report = target.audit()
    assert (report.differences, report.tables[0].verified, report.tables[0].others) == ([], 10, 90)
    assert "which was created again after the sink had read a topic of that name" in report.tables[0].notes[0]
    target.sql("UPDATE {t} SET n = n + 1 WHERE id = 3; DELETE FROM {t} WHERE id = 4")
    assert found_in(target.audit()) == {("differs", "3", "n"), ("missing in the table", "4")}


def test_rows_of_a_table_that_the_sink_has_not_created_are_noted(target: Target) -> None:
    filled(target, 10).sql("INSERT INTO {t} VALUES (50, 'before', 1, 2)")
    report = target.audit(auto__create="false")
    assert (report.differences, report.tables[0].others) == ([], 1)
    assert "auto.create=false" in report.tables[0].notes[0]
    assert "id=50" in report.tables[0].notes[0]


def test_row_is_noted_if_its_record_may_be_a_dead_letter(target: Target) -> None:
    filled(target, 10).sql("UPDATE {t} SET n = n + 1 WHERE id = 3; DELETE FROM {t} WHERE id = 4")
    report = target.audit(errors__tolerance="all")
    assert (report.differences, report.tables[0].verified, report.tables[0].others) == ([], 8, 2)
    assert all("dead letter" in note for note in report.tables[0].notes)


def test_rows_that_are_only_added_are_compared_by_a_unique_index(target: Target) -> None:
    added = {"pk__mode": "none", "insert__mode": "insert", "delete__enabled": "false"}
    filled(target, 10).sql("UPDATE {t} SET n = n + 1 WHERE id = 3")
    assert found_in(target.audit(**added)) == {("differs", "3", "n")}
    target.sql(f'ALTER TABLE {{t}} DROP CONSTRAINT "{target.name}_pkey"')
    report = target.audit(**added)
    assert (report.differences, report.is_complete) == ([], False)
    assert "it has no key that can be compared" in report.tables[0].notes[0]


INTERVAL = "c17"  # in Debezium's ISO 8601
TYPES = Schema.struct({"id": INT32, **{f"c{at}": each[0].optional() for at, each in enumerate(VALUES)}})


@pytest.mark.parametrize("target", [{"db__timezone": "Europe/Berlin"}], indirect=True)
def test_value_of_each_schema_is_verified_and_a_change_is_named(target: Target) -> None:
    full = {f"c{at}": each[1] for at, each in enumerate(VALUES)}
    target.put(1, {"id": 1, **full}, TYPES)
    target.put(2, {"id": 2}, TYPES)
    target.settle()
    report = target.audit()
    assert (report.differences, report.tables[0].verified) == ([], 2)
    assert report.tables[0].notes == [f"columns that are not compared: {INTERVAL}"]
    for at, (schema, *_) in enumerate(VALUES):
        if f"c{at}" != INTERVAL:
            target.sql(f"UPDATE {{t}} SET c{at} = (SELECT c{at} FROM {{t}} WHERE id = 1) WHERE id = 2")
            assert found_in(target.audit()) == {("differs", "2", f"c{at}")}, schema
            target.sql(f"UPDATE {{t}} SET c{at} = NULL WHERE id = 2")


COLUMNS = (
    "id int PRIMARY KEY, name varchar(20), price numeric(6, 2), n real, big text, u uuid, j jsonb, day date, "
    "at timestamp(0), made timestamptz DEFAULT now(), twice int GENERATED ALWAYS AS (id * 2) STORED"
)
FIELDS = {
    "id": INT64, "name": STRING, "price": FLOAT64, "n": FLOAT64, "big": STRING, "u": STRING, "j": STRING,
    "day": debezium("time.Date", SchemaType.INT32), "at": debezium("time.MicroTimestamp"),
}  # fmt: skip
OTHER = Schema.struct({name: schema.optional() for name, schema in FIELDS.items()})


def other(key: int) -> dict[str, Any]:
    """Return a row that the columns round, cut and write in another notation."""
    return {
        "id": key, "name": f"name {key}", "price": key / 7, "n": key / 3, "big": str(key), "u": f"{key:032X}",
        "j": f'{{"b":{key}.50, "a" : 1e{key % 9}}}', "day": key, "at": key * 1_700_000,
    }  # fmt: skip


@pytest.mark.parametrize("target", [{"columns": COLUMNS}], indirect=True)
def test_row_that_its_columns_change_is_verified(target: Target) -> None:
    for key in range(1, 101):
        target.put(key, other(key), OTHER)
    target.settle()
    report = target.audit(auto__create="true")
    assert (report.differences, report.notes, report.tables[0].notes) == ([], [], [])
    assert report.tables[0].verified == 100
    changed = {
        "name": "'x'", "price": "price + 0.01", "n": "n * 2", "big": "'x'", "u": "gen_random_uuid()",
        "j": "'{}'::jsonb", "day": "day + 1", "at": "at + interval '1 second'",
    }  # fmt: skip
    for key, (column, value) in enumerate(changed.items(), 1):
        target.sql(f"UPDATE {{t}} SET {column} = {value.replace('{}', '{{}}')} WHERE id = {key}")
    expected = {("differs", str(key), column) for key, column in enumerate(changed, 1)}
    assert found_in(target.audit()) == expected


BARE = {"value__converter__schemas__enable": "false", "columns": COLUMNS}


@pytest.mark.parametrize("target", [BARE], indirect=True)
def test_row_without_a_schema_is_compared_in_the_fields_that_it_has(target: Target) -> None:
    for key in range(1, 101):
        value = {"id": key, "name": key, "price": key / 7, "n": key / 3, "u": f"{key:032X}", "day": "2024-01-02"}
        target.put(key, {name: each for name, each in value.items() if name != "n" or key % 2}, None)
    target.settle()
    report = target.audit()
    assert (report.differences, report.tables[0].verified) == ([], 100)
    assert report.tables[0].notes == ["columns that are not compared: day"]
    target.sql("UPDATE {t} SET price = price + 1 WHERE id = 3; UPDATE {t} SET n = n + 1 WHERE id = 5")
    target.sql("UPDATE {t} SET name = 'x' WHERE id = 7")
    assert found_in(target.audit()) == {("differs", "3", "price"), ("differs", "5", "n"), ("differs", "7", "name")}


@pytest.mark.parametrize("target", [{"auto__evolve": "true"}], indirect=True)
def test_columns_that_only_old_records_have_are_noted(target: Target) -> None:
    older = Schema.struct({"id": INT32, "name": STRING.optional(), "gone": INT32.optional()})
    newer = Schema.struct({"id": INT32, "name": STRING.optional(), "n": FLOAT64.optional()})
    for key in range(30):
        target.put(key, {"id": key, "name": "older", "gone": key}, older)
    for key in range(2_000):
        target.put(key % 20, {"id": key % 20, "name": "newer", "n": key / 2}, newer)
    target.settle()
    report = target.audit()
    assert report.differences == []
    assert report.tables[0].notes == ["columns that are not compared: gone"]
    assert report.tables[0].verified == 30
    target.sql("UPDATE {t} SET n = n + 1 WHERE id = 3; UPDATE {t} SET name = 'x' WHERE id = 25")
    assert found_in(target.audit()) == {("differs", "3", "n"), ("differs", "25", "name")}


def test_columns_are_those_of_the_last_rows_before_many_tombstones(target: Target) -> None:
    target.put(0, row(0))
    for _ in range(1_000):
        target.put(999, None)
    target.settle()
    assert target.audit().is_complete
    target.sql("UPDATE {t} SET n = n + 1 WHERE id = 0")
    assert found_in(target.audit()) == {("differs", "0", "n")}


@pytest.mark.parametrize("target", [{"errors__tolerance": "all"}], indirect=True)
def test_record_that_no_converter_reads_is_left_out(target: Target) -> None:
    target.put(1, row(1))
    target.put(1, b"no JSON")
    target.put(4, b"no JSON")
    target.put(7, row(7))
    target.settle()
    report = target.audit()
    assert (report.differences, report.tables[0].verified) == ([], 2)


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_rows_are_noted_if_their_records_are_deleted(target: Target, policy: str) -> None:
    filled(target, 30)
    admin = AdminClient({"bootstrap.servers": target.kafka.bootstrap_servers})
    entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, target.name, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result()
    for future in admin.delete_records([KafkaPartition(target.name, 0, 5)]).values():
        future.result()
    report = target.audit()
    assert (report.differences, report.tables[0].verified, report.tables[0].others) == ([], 25, 5)
    assert "which lacks its first records" in report.tables[0].notes[0]


def test_audit_that_was_stopped_reads_on_and_refuses_to_go_back(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    filled(target, 30)
    with monkeypatch.context() as patched:
        patched.setattr(StoredPosition, "begin", stop)
        with pytest.raises(KeyboardInterrupt):
            target.audit(tmp_path / "state")
    for key in range(10):
        target.put(key, row(key, "again"))
    target.settle()
    read: list[int] = []
    monkeypatch.setattr(
        topic_rows.TopicRows, "_shown", lambda self, place, found, visible: (read.append(1) or each for each in found)
    )
    report = target.audit(tmp_path / "state")
    assert (report.is_complete, report.tables[0].verified, len(read)) == (True, 30, 10)
    assert not (tmp_path / "state").exists()
    with monkeypatch.context() as patched:
        patched.setattr(StoredPosition, "begin", stop)
        with pytest.raises(KeyboardInterrupt):
            target.audit(tmp_path / "state")
    target.sql(f"UPDATE fencepost_offsets SET next_offset = 1 WHERE sink = '{target.name}'")
    with pytest.raises(FatalError, match="was set back: repeat the audit"):
        target.audit(tmp_path / "state")
    target.sql(f"DELETE FROM fencepost_offsets WHERE sink = '{target.name}'")
    with pytest.raises(FatalError, match="has not written anything of topics that exist"):
        target.audit()


KEYS = {
    "kafka": {"pk__mode": "kafka", "delete__enabled": "false"},
    "record_value": {"pk__mode": "record_value", "pk__fields": "id", "delete__enabled": "false"},
}


@pytest.mark.parametrize("target", KEYS.values(), ids=KEYS.keys(), indirect=True)
def test_row_is_compared_by_each_kind_of_key(target: Target) -> None:
    filled(target, 30)
    target.put(29, row(29, "again"))
    target.settle()
    report = target.audit()
    assert report.is_complete
    assert report.tables[0].verified == report.tables[0].rows == (31 if "kafka" in target.config["pk.mode"] else 30)
    target.sql("UPDATE {t} SET n = n + 1 WHERE name = 'row 3'; DELETE FROM {t} WHERE name = 'again 29'")
    assert [(each.kind.value, each.columns) for each in target.audit().differences] == [
        ("differs", ("n",)),
        ("missing in the table", ()),
    ]


AFTER = Schema.struct({"id": INT32, "name": STRING.optional(), "large": STRING.optional()}).optional()
ENVELOPE = Schema.struct({"before": AFTER, "after": AFTER, "source": Schema.struct({"lsn": INT64}), "op": STRING})


def change(op: str, **after: Any) -> dict[str, Any]:
    """Return Debezium's envelope."""
    kept = None if op == "d" else after
    return {"before": None, "after": kept, "source": {"lsn": 1}, "op": op}


def test_envelopes_are_compared_without_values_that_they_do_not_have(target: Target) -> None:
    for key in range(20):
        target.put(key, change("c", id=key, name=f"row {key}", large="large"), ENVELOPE)
    target.put(3, change("u", id=3, name="updated", large="__debezium_unavailable_value"), ENVELOPE)
    target.put(4, change("d"), ENVELOPE)
    target.put(5, change("d"), ENVELOPE)
    target.put(5, None)
    target.put(5, change("c", id=5, name="again", large=None), ENVELOPE)
    target.settle()
    report = target.audit()
    assert (report.differences, report.tables[0].rows) == ([], 19)
    assert (report.tables[0].verified, report.tables[0].others) == (18, 1)
    target.sql("UPDATE {t} SET name = 'x' WHERE id = 3; UPDATE {t} SET large = 'x' WHERE id = 6")
    target.sql("INSERT INTO {t} VALUES (4, 'deleted')")
    assert found_in(target.audit()) == {
        ("differs", "3", "name"),
        ("differs", "6", "large"),
        ("missing in the topic", "4"),
    }


def test_audit_of_a_sink_needs_only_its_name(target: Target) -> None:
    filled(target, 10).sql("DELETE FROM {t} WHERE id = 4")
    config = {**target.config, "connector.class": "PostgresSink"}
    answers = {
        f"/connectors/{target.name}/config": config,
        "/kafka": {"bootstrap_servers": target.kafka.bootstrap_servers},
    }
    with HttpAnswers(lambda asked: Answer(answers[asked.path])) as served:
        done = CliRunner().invoke(app, ["audit", target.name, "--url", served.url])
    assert "id=4: missing in the table" in done.output
    assert done.exit_code == 1
