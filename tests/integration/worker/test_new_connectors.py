"""The connectors and the transform of new projects, as they are written, in a worker on a real broker."""

import json
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from file_connector import Produce

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually
from support.cluster import LightWorker
from support.new_project import KINDS, TRANSFORM, written
from support.worker import Worker

JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


@pytest.fixture(scope="module")
def worker(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A worker that finds a project of each kind in its plug-in directories."""
    directory = tmp_path_factory.mktemp("projects")
    paths = [str(written(directory, kind, f"new-{kind}") / "src") for kind in (*KINDS, TRANSFORM)]
    settings = {"plugin.path": ",".join(paths), "offset.flush.interval.ms": "300"}
    group = f"new-{uuid.uuid4().hex[:6]}"
    with LightWorker(kafka.bootstrap_servers, tmp_path_factory.mktemp("worker"), settings, group=group) as running:
        eventually(running.slots, within_s=200)
        yield running


@pytest.fixture
def partitions() -> int:
    return 1


@pytest.fixture
def value_of() -> Callable[[int], bytes]:
    return lambda number: json.dumps({"total": number}).encode()


def test_a_new_source_sends_lines_once_and_a_new_transform_changes_them(
    worker: Worker, topic_name: str, tmp_path: Path, values: Callable[..., list[str]]
) -> None:
    file = tmp_path / "lines"
    file.write_text("one\ntwo\n")
    config = {"connector.class": "NewSource", "file": str(file), "topic": topic_name, **JSON}
    config |= {"transforms": "new", "transforms.new.type": "NewTransform", "transforms.new.fields": "text"}
    assert worker.create(topic_name, {**config, "exactly.once.support": "required"}).status_code == 201
    values(topic_name, 2)
    worker.rest.put(f"/connectors/{topic_name}/stop")
    with file.open("a") as more:
        more.write("three\n")
    worker.rest.put(f"/connectors/{topic_name}/resume")
    found = [json.loads(value) for value in values(topic_name, 3)]
    assert found == [{"position": end, "text": text} for end, text in ((4, "ONE"), (8, "TWO"), (14, "THREE"))]


def test_a_new_sink_stores_records_once(
    worker: Worker, name: str, topic: str, produce: Produce, tmp_path: Path
) -> None:
    produce(0, 9)
    database = tmp_path / "records.db"
    config = {"connector.class": "NewSinkConnector", "topics": topic, "database": str(database), **JSON}
    assert worker.create(name, config).status_code == 201

    def stored() -> list[tuple[int, str]]:
        with closing(sqlite3.connect(database)) as db:
            return db.execute("SELECT kafka_offset, value FROM records ORDER BY 1").fetchall()

    eventually(lambda: len(stored()) >= 10, within_s=60)
    assert stored() == [(number, json.dumps({"total": number})) for number in range(10)]


def test_a_new_stream_passes_large_records_on_once(
    worker: Worker, name: str, topic: str, produce: Produce, values: Callable[..., list[str]]
) -> None:
    produce(95, 104)
    target = f"{topic}-large"
    config = {"connector.class": "NewStream", "topics": topic, "target": target, **JSON}
    assert worker.create(name, config).status_code == 201
    assert [json.loads(value)["total"] for value in values(target, 5)] == list(range(100, 105))


def test_an_unknown_class_is_refused_with_the_similar_known_class(worker: Worker) -> None:
    answer = worker.create("wrong", {"connector.class": "NewSorce", "topic": "t"})
    assert answer.status_code == 500 or answer.status_code == 400
    assert "Did you mean NewSourceConnector" in answer.json()["message"]
