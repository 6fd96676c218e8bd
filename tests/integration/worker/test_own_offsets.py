"""Step 4 of the start-up order: a connector whose offsets are not in the worker's topic (KIP-618)."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.storage.offset_topic import OffsetReader, SourceOffset, stored
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from support.quick import quick_kafka
from support.worker import Worker


@pytest.fixture(scope="module")
def other_kafka() -> Iterator[EmbeddedKafka]:
    with quick_kafka() as broker:
        yield broker


def _lines(bootstrap: str, topic: str) -> list[bytes | None]:
    return [o.value for o in CommittedReader(bootstrap, [topic]).read_all(30)]


@pytest.mark.parametrize("where", ["own topic", "other cluster"])
def test_a_restart_resumes_at_the_offsets_in_the_connectors_own_topic(
    worker: Worker, kafka: EmbeddedKafka, other_kafka: EmbeddedKafka, name: str, tmp_path: Path, where: str
):
    file = tmp_path / "in.txt"
    file.write_text("a\nb\n")
    config = {"connector.class": "FileStreamSource", "file": str(file), "topic": name}
    if where == "own topic":
        target, own_topic = kafka, f"{name}-offsets"
        config["offsets.storage.topic"] = own_topic
    else:
        target, own_topic = other_kafka, worker.properties["offset.storage.topic"]
        config["producer.override.bootstrap.servers"] = other_kafka.bootstrap_servers
    assert worker.create(name, config).status_code == 201
    bootstrap = target.bootstrap_servers
    assert eventually(lambda: _lines(bootstrap, name) == [b"a", b"b"], within_s=60)
    assert Admin({"bootstrap.servers": bootstrap}).configs.get(own_topic)["cleanup.policy"] == "compact"
    assert worker.rest.post(f"/connectors/{name}/tasks/0/restart").status_code == 204
    with file.open("a") as end:
        end.write("c\n")
    assert eventually(lambda: len(_lines(bootstrap, name)) >= 3, within_s=60)
    assert _lines(bootstrap, name) == [b"a", b"b", b"c"]
    worker.wait_for_tasks(name, "RUNNING")
    assert eventually(lambda: [o and o["position"] for o in _copied(worker, kafka, name)] == [6], within_s=60)


def test_no_offsets_are_copied_to_the_workers_own_cluster_under_another_name(
    worker: Worker, kafka: EmbeddedKafka, name: str, tmp_path: Path
):
    """A late copy there would be taken for what was committed last, and what came after it would be sent again."""
    file = tmp_path / "in.txt"
    file.write_text("a\n")
    host, _, port = kafka.bootstrap_servers.partition(":")
    other_name = f"{'127.0.0.1' if host == 'localhost' else 'localhost'}:{port}"
    config = {"connector.class": "FileStreamSource", "file": str(file), "topic": name}
    assert worker.create(name, {**config, "producer.override.bootstrap.servers": other_name}).status_code == 201
    for count in (1, 2, 3):
        assert eventually(lambda: len(_lines(kafka.bootstrap_servers, name)) == count, within_s=60)  # noqa: B023
        with file.open("a") as end:
            end.write("b\n")
    assert eventually(lambda: len(_lines(kafka.bootstrap_servers, name)) == 4, within_s=60)
    assert worker.rest.put(f"/connectors/{name}/stop").status_code == 204
    assert worker.rest.delete(f"/connectors/{name}/offsets").status_code == 200  # waits for the end of the task
    found = CommittedReader(kafka.bootstrap_servers, [worker.properties["offset.storage.topic"]]).read_all(30)
    values = [o.value for o in found if name.encode() in (o.key or b"")]
    assert [value and json.loads(value)["position"] for value in values] == [2, 4, 6, 8, None]


def _copied(worker: Worker, kafka: EmbeddedKafka, name: str) -> list[SourceOffset | None]:
    """Return what the worker's topic says, whichever start of the task has sent the last line."""
    reader = OffsetReader({"bootstrap.servers": kafka.bootstrap_servers}, worker.properties["offset.storage.topic"])
    try:
        return [offset for _, offset in stored(reader.read_known(name, 20))]
    finally:
        reader.close()
