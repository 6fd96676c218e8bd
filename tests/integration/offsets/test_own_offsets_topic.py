"""A connector with an offsets topic of its own: what is in it, and what is in the worker's (KIP-618, E7)."""

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from moved import MovedOffsetsStage

from fencepost.kafka.read.log import LogReader, LogRecord
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from support.partitioner import partition_for

FILES = "offset_suite.FilesConnector"
OWN = ["own topic", "own topic, at least once"]
LINES = [f"{file}-{line}" for file in range(3) for line in range(1, 5)]


def records(scene: MovedOffsetsStage, topic: str) -> list[LogRecord]:
    """Return every committed record of the connector in an offsets topic."""
    found: list[LogRecord] = []
    reader = LogReader(scene.conf, topic)
    try:
        reader.read_to_end(30, found.append)
    finally:
        reader.close()
    return [record for record in found if f'["{scene.name}",'.encode() in (record.key or b"")]


def values(scene: MovedOffsetsStage) -> list[str]:
    with CommittedReader(scene.kafka.bootstrap_servers, [scene.name]) as reader:
        return [(o.value or b"").decode() for o in reader.read_all(30)]


def files(scene: MovedOffsetsStage, **more: str) -> dict[str, Any]:
    return {"connector.class": FILES, "topic": scene.name, "offsets.storage.topic": scene.offsets_topic} | more


@pytest.mark.parametrize("scene", OWN, indirect=True)
def test_offsets_and_tombstones_are_copied_to_the_workers_topic(scene: MovedOffsetsStage) -> None:
    assert scene.worker.create(scene.name, files(scene)).status_code == 201
    eventually(lambda: scene.offsets() == [({"done": True}, {"files": 3})], within_s=60)
    assert values(scene) == LINES
    own, shared = records(scene, scene.offsets_topic), records(scene, scene.shared_topic)
    tombstones = {r.key for r in own if r.value is None}
    assert len(tombstones) == 3
    last = {r.key: r.value for r in shared}
    assert [last[key] for key in tombstones] == [None] * 3
    eventually(lambda: {r.key: r.value for r in records(scene, scene.shared_topic)} == {r.key: r.value for r in own})


@pytest.mark.parametrize("scene", ["own topic"], indirect=True)
def test_e7_crash_between_the_copy_of_a_tombstone_and_the_commit_loses_nothing(
    scene: MovedOffsetsStage, tmp_path: Path
) -> None:
    marker = tmp_path / "marker"
    config = files(scene, **{"crash.after.forgetting": str(marker)})
    assert scene.worker.create(scene.name, config).status_code == 201
    eventually(marker.exists, within_s=60)
    eventually(lambda: scene.offsets() == [({"done": True}, {"files": 3})], within_s=60)
    assert values(scene) == LINES
    assert {r.key: r.value for r in records(scene, scene.shared_topic)}[
        b'["%s",{"file":0}]' % scene.name.encode()
    ] is None


@pytest.mark.parametrize("scene", OWN, indirect=True)
def test_connector_with_a_new_own_topic_continues_from_the_workers_offsets(scene: MovedOffsetsStage) -> None:
    config = scene.config()
    own = config.pop("offsets.storage.topic")
    assert scene.worker.create(scene.name, config).status_code == 201
    assert len(scene.lines(10)) == 10
    eventually(lambda: scene.position() == 20)
    assert scene.worker.rest.put(f"/connectors/{scene.name}/config", json=scene.config()).status_code == 200
    eventually(lambda: scene.admin.topics.partitions(own) == int(scene.worker.properties["offset.storage.partitions"]))
    with scene.file.open("a") as file:
        file.write("10\n")
    assert scene.lines(11) == [str(n) for n in range(11)]
    eventually(lambda: scene.positions(own) == {str(scene.file): 23})
    assert scene.admin.configs.get(own)["cleanup.policy"] == "compact"
    eventually(lambda: scene.positions(scene.shared_topic) == {str(scene.file): 23})


@pytest.mark.parametrize("scene", ["own topic"], indirect=True)
def test_own_topic_that_would_lose_offsets_fails_the_task(scene: MovedOffsetsStage) -> None:
    scene.admin.topics.create(scene.offsets_topic, partitions=1, replication=1)
    assert scene.create().status_code == 201
    (failed,) = scene.worker.wait_for_tasks(scene.name, "FAILED")
    trace = failed["trace"]
    assert f"Topic '{scene.offsets_topic}' supplied via the 'offsets.storage.topic' property is required" in trace


@pytest.mark.parametrize("scene", ["worker's topic", "own topic"], indirect=True)
def test_key_written_by_a_java_worker_is_reused_in_its_partition(
    scene: MovedOffsetsStage,
) -> None:
    assert scene.create(initial_state="STOPPED").status_code == 201
    assert scene.reset().status_code == 200  # makes the topic
    theirs = f'["{scene.name}", {{"filename": "{scene.file}"}}]'.encode()
    producer = Producer({**scene.conf, "partitioner": "murmur2_random"})
    producer.produce(scene.offsets_topic, key=theirs, value=b'{"position":16}')
    producer.flush(60)
    scene.resume()
    assert scene.lines(2) == ["8", "9"]
    eventually(lambda: scene.position() == 20)
    count = scene.admin.topics.partitions(scene.offsets_topic) or 0
    found = records(scene, scene.offsets_topic)
    assert {r.key for r in found} == {theirs}
    assert {r.partition for r in found} == {partition_for(theirs, count)}
