"""Debezium's JDBC sink while its host and its slot are killed: Postgres has each row once, with its last value."""

import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually
from support.chaos.java_faults import JavaFault, struck
from support.cluster import LightWorker
from support.debezium import JSON, put_jdbc_sink
from support.long_form import IS_LONG
from support.postgres import Postgres, running_postgres
from support.worker import Worker

pytestmark = [pytest.mark.chaos, pytest.mark.skipif(not IS_LONG, reason="FENCEPOST_CHAOS=long")]
WITHIN_S = 240
ROUNDS, KEYS, RECORDS = 4, 200, 1000  # a round has five values of each key


@pytest.fixture
def database() -> Iterator[Postgres]:
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory,
        running_postgres(Path(directory)) as found,
    ):
        yield found


@pytest.fixture
def worker(kafka: EmbeddedKafka, tmp_path: Path) -> Iterator[Worker]:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    put_jdbc_sink(plugins)
    settings = {"plugin.path": str(plugins), "spark.master": "local[4]", "slots.max": "2"}
    settings["offset.flush.interval.ms"] = "1000"
    with LightWorker(kafka.bootstrap_servers, tmp_path, settings, group=f"jdbc-{os.getpid()}") as running:
        yield running


def with_schema(**fields: int) -> bytes:
    """Return a struct of whole numbers as JsonConverter reads it."""
    schema = {"type": "struct", "fields": [{"field": name, "type": "int32"} for name in fields]}
    return json.dumps({"schema": schema, "payload": fields}).encode()


def produce(kafka: EmbeddedKafka, topic: str, first: int, count: int) -> None:
    """Write records whose numbers go on from `first`; the key of each is the rest of its division by KEYS."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 5})
    for number in range(first, first + count):
        key = number % KEYS
        producer.produce(topic, key=with_schema(id=key), value=with_schema(id=key, number=number))
    assert producer.flush(60) == 0


def config(topic: str, database: Postgres) -> dict[str, str]:
    """Return a config as the documentation of Debezium has it; the sink makes the table."""
    return {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "topics": topic,
        "connection.url": f"jdbc:postgresql://127.0.0.1:{database.port}/postgres",
        "connection.username": "postgres",
        "connection.password": "nothing",
        "insert.mode": "upsert",
        "primary.key.mode": "record_key",
        "primary.key.fields": "id",
        "schema.evolution": "basic",
        "collection.name.format": "orders",
        "key.converter": JSON,
        "value.converter": JSON,
        "consumer.override.max.poll.records": "100",  # so that faults fall between writes
    }


@pytest.mark.timeout(WITHIN_S * (ROUNDS + 1))
def test_each_row_is_there_once_with_its_last_value(
    worker: Worker, kafka: EmbeddedKafka, topic_name: str, database: Postgres, capfd: pytest.CaptureFixture[str]
) -> None:
    produce(kafka, topic_name, 0, RECORDS)
    answer = worker.create(topic_name, config(topic_name, database))
    assert answer.status_code == 201, answer.text

    def read() -> list[list[int]]:
        if database.sql("select to_regclass('orders')").strip() != "orders":
            return []
        lines = database.sql("select id, number from orders order by id").split()
        return [list(map(int, line.split("|"))) for line in lines]

    def await_all(total: int) -> None:
        expected = [[key, total - KEYS + key] for key in range(KEYS)]
        eventually(lambda: read() == expected or _missing(worker, topic_name, read()), within_s=WITHIN_S)

    await_all(RECORDS)
    total, recoveries = RECORDS, []
    for number in range(ROUNDS):
        produce(kafka, topic_name, total, RECORDS // 2)
        began = time.monotonic()
        with struck(worker, JavaFault.KILL_SLOT if number % 2 else JavaFault.KILL_HOST):
            produce(kafka, topic_name, total + RECORDS // 2, RECORDS // 2)
            total += RECORDS
            await_all(total)
        recoveries.append(time.monotonic() - began)
    eventually(lambda: sum(worker.sink_offsets(topic_name).values()) == total, within_s=WITHIN_S)
    await_all(total)  # and so it stays when everything is committed
    with capfd.disabled():
        print(f"\n{total} records in {KEYS} rows after {ROUNDS} kills, each over after {max(recoveries):.1f} s at most")


def _missing(worker: Worker, name: str, rows: list[list[int]]) -> bool:
    raise AssertionError(f"{len(rows)} rows, of which the last are {rows[-3:]}: {worker.status(name)}")
