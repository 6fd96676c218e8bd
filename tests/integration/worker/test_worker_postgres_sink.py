"""PostgresSink on a running worker and a real broker: each record is a row once, though slots die and topics go."""

import json
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from support.postgres import Postgres, running_postgres
from support.postgres_sink import sql
from support.worker import Worker

_SCHEMA = {"type": "struct", "fields": [{"field": "number", "type": "int32"}, {"field": "run", "type": "string"}]}


@pytest.fixture
def database() -> Iterator[Postgres]:
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory,
        running_postgres(Path(directory)) as found,
    ):
        yield found


def sink(database: Postgres, topic: str) -> dict[str, str]:
    return {
        "connector.class": "PostgresSink",
        "topics": topic,
        "tasks.max": "2",
        "table.name.format": "numbers",
        "auto.create": "true",
        "connection.url": f"jdbc:postgresql://127.0.0.1:{database.port}/postgres",
        "connection.user": "postgres",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "true",
        "slot.dedicated": "true",
        "consumer.override.session.timeout.ms": "6000",
        "consumer.override.heartbeat.interval.ms": "500",
    }


def write(kafka: EmbeddedKafka, topic: str, numbers: range, run: str = "first") -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 5})
    for number in numbers:
        value = {"schema": _SCHEMA, "payload": {"number": number, "run": run}}
        producer.produce(topic, json.dumps(value).encode(), partition=number % 4)
    assert producer.flush(60) == 0


def rows(database: Postgres, run: str = "first") -> list[int]:
    if sql(database, "SELECT to_regclass('numbers')") == [(None,)]:
        return []
    return [number for (number,) in sql(database, f"SELECT number FROM numbers WHERE run = '{run}' ORDER BY number")]


def test_killed_slots_lose_and_repeat_no_row_of_postgres(
    worker: Worker, kafka: EmbeddedKafka, name: str, topic: str, database: Postgres
) -> None:
    write(kafka, topic, range(200))
    assert worker.create(name, sink(database, topic)).status_code == 201
    for last in (400, 600):
        eventually(lambda last=last: len(rows(database)) >= last - 200, within_s=240)  # type: ignore[misc]
        write(kafka, topic, range(last - 200, last))
        slots = worker.slots()
        os.kill(slots[max(slots)], signal.SIGKILL)  # the newest: one of those that were made for this connector
    eventually(lambda: len(rows(database)) >= 600, within_s=240)
    assert rows(database) == [*range(600)]


def test_topic_that_is_created_again_reaches_postgres_from_its_beginning(
    worker: Worker, kafka: EmbeddedKafka, name: str, topic: str, database: Postgres
) -> None:
    write(kafka, topic, range(200))
    assert worker.create(name, sink(database, topic)).status_code == 201
    eventually(lambda: rows(database) == [*range(200)], within_s=240)
    topics = Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics
    topics.delete([topic])
    eventually(lambda: topics.get(topic) is None, within_s=60)
    topics.create(topic, partitions=4, replication=1)
    write(kafka, topic, range(120), run="second")
    eventually(lambda: rows(database, "second") == [*range(120)], within_s=240)
    assert rows(database) == [*range(200)]
