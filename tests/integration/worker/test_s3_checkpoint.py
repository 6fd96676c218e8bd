"""A streaming query whose checkpoint, with what its tasks stage, is in an object store, by S3A and by Arrow."""

import json
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest
from file_connector import created, settings_of_tests

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from support.log_writer import LogWriter
from support.object_store import SECRET, ObjectStore, object_store
from support.worker import Worker

pytestmark = [
    pytest.mark.skipif(pyspark.__version__ < "4.2", reason="SqlStream needs Spark 4.2, as the page says"),
]

STRINGS, JSON = "org.apache.kafka.connect.storage.StringConverter", "org.apache.kafka.connect.json.JsonConverter"
BLOCK = 5_000  # values of a kilobyte: each of two tasks has more than a message takes
WITHIN_S = 240
KEPT = {"fencepost-decisions", "fencepost-owner"}
MOMENTS = {
    "a task stages its output": r"/fencepost-[0-9a-f]{32}/[0-9a-f]{32}/[0-9a-f]{32}",
    "Spark notes the offsets of a batch": r"/offsets/[^/]+",
    "Spark notes that a batch is done": r"/commits/[^/]+",
}


@pytest.fixture
def store() -> Iterator[ObjectStore]:
    with object_store() as running:
        running.make_bucket("queries")
        yield running


@pytest.fixture
def mortal(
    kafka: EmbeddedKafka, store: ObjectStore, tmp_path: Path, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Worker]:
    """A worker that is killed and starts again. The keys to the store are only in its environment."""
    for variable, value in store.environment.items():
        monkeypatch.setenv(variable, value)
    spark = {key: value for key, value in store.spark_properties.items() if not key.endswith(".key")}
    settings = settings_of_tests(**spark, **{"spark.sql.shuffle.partitions": "2"})
    with Worker(kafka.bootstrap_servers, tmp_path, settings, group=topic_name) as running:
        yield running


def test_query_on_s3_writes_each_result_once_when_its_worker_is_killed(
    mortal: Worker, store: ObjectStore, log_writer: LogWriter, topic_name: str
) -> None:
    """The store carries out the request of the killed one."""
    topic, target = log_writer.topic(f"{topic_name}-in"), log_writer.topic(f"{topic_name}-out", 2)
    config = {
        "connector.class": "SqlStream",
        "topics": topic,
        "sql": f"SELECT value, count(*) AS n FROM `{topic}` GROUP BY value",
        "output.topic": target,
        "output.mode": "update",
        "checkpoint.location": f"s3a://queries/{topic_name}",
        "key.converter": STRINGS,
        "value.converter": STRINGS,
        "output.value.converter": JSON,
        "output.value.converter.schemas.enable": "false",
    }
    created(mortal, "counts", config)
    expected: list[str] = []

    def feed() -> None:
        """Write a block in a transaction, so that it is a batch of its own."""
        values = [f"{n} {os.urandom(500).hex()}" for n in range(len(expected), len(expected) + BLOCK)]
        log_writer.write(topic, values)
        expected.extend(values)

    with CommittedReader(mortal.properties["bootstrap.servers"], [target]) as reader:
        for moment, path in MOMENTS.items():
            _kill(mortal, store, f"/queries/{topic_name}{path}", feed)
            print(f"killed when {moment}")
            mortal.start()
            eventually(lambda: len(reader.seen()) >= len(expected), within_s=WITHIN_S)
        rows = [json.loads(each.value or b"") for each in reader.catch_up(WITHIN_S)]
    assert Counter((row["value"], row["n"]) for row in rows) == Counter((value, 1) for value in expected)
    assert mortal.task_states("counts") == ["RUNNING"]
    assert SECRET not in mortal.log_text()
    assert {path.split("/")[2] for path in store.objects(f"queries/{topic_name}") if "/fencepost-" in path} == KEPT


def _kill(worker: Worker, store: ObjectStore, path: str, feed: Callable[[], None]) -> None:
    """Feed the query, and kill its worker at the first write to a path."""
    killed = threading.Event()

    def kill(method: str, at: str) -> None:
        if method in ("PUT", "POST") and re.fullmatch(path, at) and not killed.is_set():
            killed.set()
            worker.kill()

    with store.failing(kill):
        feed()
        eventually(lambda: killed.is_set() and worker.process is None, within_s=WITHIN_S)
