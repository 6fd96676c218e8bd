"""MongoDB's sink while its host and its slot are killed: each document is there, once, as it names its `_id`."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from fencepost.embedded import EmbeddedKafka
from fencepost.embedded.java import find_java
from fencepost.testing import eventually
from support.chaos.java_faults import JavaFault, struck
from support.cluster import LightWorker
from support.java_program import ensure_compiler
from support.long_form import IS_LONG
from support.maven_plugin import plugin
from support.worker import Worker

MONGO = "2.0.1"
_SERVER = "1.47.0"
_PROGRAM = Path(__file__).parents[1] / "support" / "java" / "MongoStore.java"


def mongo(plugin_path: Path) -> Path:
    """Put MongoDB's plug-in into a directory of `plugin.path`, and return its own directory."""
    return plugin("org.mongodb.kafka", ("mongo-kafka-connect",), MONGO, plugin_path)


class MongoStore:
    """A server that runs."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.uri = f"mongodb://127.0.0.1:{int(self._line())}"

    def documents(self, database: str, collection: str) -> list[Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{database} {collection}\n")
        self._process.stdin.flush()
        found: list[Any] = json.loads(self._line())
        return found

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the server has ended"
        return line


@contextmanager
def running_mongo(directory: Path, plugin_directory: Path) -> Iterator[MongoStore]:
    """Run a server, with the client of the plug-in for questions; its jars are put into `directory`."""
    ensure_compiler()
    jars = plugin("de.bwaldvogel", ("mongo-java-server",), _SERVER, directory)
    classpath = os.pathsep.join((f"{jars}/*", f"{plugin_directory}/*"))
    command = [str(find_java().path), "-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp", classpath, str(_PROGRAM)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield MongoStore(process)
        finally:
            process.kill()


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
