"""MongoDB's sink while its host and its slot are killed: each document is there, once, as it names its `_id`."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually
from support.chaos.java_faults import JavaFault, struck
from support.cluster import LightWorker
from support.long_form import IS_LONG
from support.mongo import MongoStore, mongo, running_mongo
from support.worker import Worker

pytestmark = [pytest.mark.chaos, pytest.mark.skipif(not IS_LONG, reason="FENCEPOST_CHAOS=long")]
WITHIN_S = 240
ROUNDS, RECORDS = 4, 500
SINK = "com.mongodb.kafka.connect.MongoSinkConnector"  # no services file of its jar names it


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    directory = tmp_path / "plugins"
    directory.mkdir()
    mongo(directory)
    return directory


@pytest.fixture
def store(plugins: Path, tmp_path: Path) -> Iterator[MongoStore]:
    with running_mongo(tmp_path / "server", plugins / "mongo-kafka-connect") as found:
        yield found


@pytest.fixture
def worker(kafka: EmbeddedKafka, plugins: Path, tmp_path: Path) -> Iterator[Worker]:
    settings = {"plugin.path": str(plugins), "spark.master": "local[4]", "slots.max": "2"}
    settings["offset.flush.interval.ms"] = "1000"
    with LightWorker(kafka.bootstrap_servers, tmp_path, settings, group=f"mongo-{os.getpid()}") as running:
        yield running


def produce(kafka: EmbeddedKafka, topic: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 5})
    for number in range(first, first + count):
        producer.produce(topic, json.dumps({"_id": number, "name": f"order {number}"}).encode())
    assert producer.flush(60) == 0


def test_each_document_is_there_once(worker: Worker, kafka: EmbeddedKafka, topic_name: str, store: MongoStore) -> None:
    config = {
        "connector.class": SINK,
        "topics": topic_name,
        "connection.uri": store.uri,
        "database": "shop",
        "collection": "orders",
        "document.id.strategy": "com.mongodb.kafka.connect.sink.processor.id.strategy.ProvidedInValueStrategy",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    produce(kafka, topic_name, 0, RECORDS)
    answer = worker.create(topic_name, config)
    assert answer.status_code == 201, answer.text

    def ids() -> list[int]:
        return [each["_id"] for each in store.documents("shop", "orders")]

    eventually(lambda: len(ids()) == RECORDS, within_s=WITHIN_S)
    total = RECORDS
    for number in range(ROUNDS):
        produce(kafka, topic_name, total, RECORDS // 2)
        with struck(worker, JavaFault.KILL_SLOT if number % 2 else JavaFault.KILL_HOST):
            produce(kafka, topic_name, total + RECORDS // 2, RECORDS // 2)
            total += RECORDS
            eventually(lambda: len(ids()) >= total, within_s=WITHIN_S)  # noqa: B023
    eventually(lambda: sum(worker.sink_offsets(topic_name).values()) == total, within_s=WITHIN_S)
    assert sorted(ids()) == list(range(total))
    print(f"{total} documents, each once, after {ROUNDS} kills")
