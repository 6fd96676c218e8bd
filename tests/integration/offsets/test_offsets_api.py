"""`/connectors/C/offsets` on running workers (KIP-875)."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from moved import EVERYWHERE, MovedOffsetsStage

from fencepost.storage.offset_topic import encode
from fencepost.testing import eventually

ALTERED = "The offsets for this connector have been altered successfully"
RESET = "The offsets for this connector have been reset successfully"
FRAMEWORK_ONLY = "The Connect framework-managed offsets for this connector have been altered successfully. However,"
LINES = [str(n) for n in range(10)]
END = 20  # bytes of the file


@pytest.mark.parametrize("scene", EVERYWHERE, indirect=True)
def test_connector_resumes_from_altered_and_reset_offsets(scene: MovedOffsetsStage) -> None:
    assert scene.create().status_code == 201
    assert scene.lines(10) == LINES
    eventually(lambda: scene.position() == END)
    refused = scene.move(16)
    assert refused.status_code == 400
    assert refused.json()["message"] == (
        "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the "
        f"specified connector by issuing a 'PUT' request to the '/connectors/{scene.name}/stop' endpoint"
    )
    scene.stop()
    assert (scene.reset().status_code, scene.offsets()) == (200, [])
    answer = scene.move(16)
    assert (answer.status_code, answer.json()) == (200, {"message": ALTERED})
    assert scene.offsets() == [(scene.partition, {"position": 16})]
    scene.resume()
    assert scene.lines(12) == [*LINES, "8", "9"]
    eventually(lambda: scene.position() == END)
    scene.stop()
    assert scene.reset().json() == {"message": RESET}
    assert scene.reset().json() == {"message": RESET}
    assert (scene.offsets(), scene.stored(scene.shared_topic)) == ([], {})
    scene.resume()
    assert scene.lines(22) == [*LINES, "8", "9", *LINES]


@pytest.mark.parametrize("scene", ["worker's topic", "own topic"], indirect=True)
def test_offsets_are_altered_inside_a_transaction(scene: MovedOffsetsStage) -> None:
    """A record that is not in one would not be followed by a marker."""
    assert scene.create(initial_state="STOPPED").status_code == 201
    assert scene.move(4).status_code == 200
    assert scene.position() == 4  # read up to the marker, which follows the answer to the commit
    before = scene.log_ends()
    assert scene.move(6).status_code == 200
    assert scene.position() == 6
    assert scene.log_ends() == before + 2


@pytest.mark.parametrize("second", ["", "#1"])
@pytest.mark.parametrize("scene", ["own topic"], indirect=True)
def test_zombie_of_either_lane_cannot_undo_an_alteration(scene: MovedOffsetsStage, second: str) -> None:
    assert scene.create().status_code == 201
    assert scene.lines(10) == LINES
    scene.stop()
    id_ = f"{scene.worker.properties['group.id']}-{scene.name}-0{second}"
    zombie = Producer({**scene.conf, "transactional.id": id_, "partitioner": "murmur2_random"})
    zombie.init_transactions(30)
    zombie.begin_transaction()
    key, value = encode(scene.name, scene.partition, {"position": 2})
    zombie.produce(scene.offsets_topic, key=key, value=value)
    zombie.flush(60)
    assert scene.move(16).status_code == 200
    with pytest.raises(KafkaException):
        zombie.commit_transaction(10)
    assert scene.position() == 16


@pytest.mark.parametrize(
    ("answer", "status", "message"),
    [
        ("", 200, FRAMEWORK_ONLY),
        ("external", 200, ALTERED),
        ("unsupported", 500, "Failed to modify offsets for connector NAME because it doesn't support external mod"),
        ("refuses", 500, "not these: [({'p': 1}, {'n': 1})]"),
        ("breaks", 500, "Failed to modify offsets for source connector NAME"),
    ],
)
def test_connector_is_asked_before_its_offsets_change(
    scene: MovedOffsetsStage, answer: str, status: int, message: str
) -> None:
    config = {"connector.class": "offset_suite.HookConnector", "answer": answer}
    assert scene.worker.create(scene.name, config, initial_state="STOPPED").status_code == 201
    given = scene.alter(({"p": 1}, {"n": 1}))
    assert given.status_code == status
    assert given.json()["message"].startswith(message.replace("NAME", scene.name))
    assert "hunter2" not in given.text
    assert scene.offsets() == ([({"p": 1}, {"n": 1})] if status == 200 else [])


@pytest.mark.parametrize("act", ["alter", "reset"])
def test_an_offset_change_is_refused_when_tasks_have_run_in_the_meantime(
    scene: MovedOffsetsStage, tmp_path: Path, act: str
) -> None:
    config = {"connector.class": "offset_suite.HookConnector"}
    assert scene.worker.create(scene.name, config, initial_state="STOPPED").status_code == 201
    assert scene.alter(({"p": 1}, {"n": 1})).status_code == 200
    waiting = {**config, "answer": f"waits in {tmp_path}"}
    assert scene.worker.rest.put(f"/connectors/{scene.name}/config", json=waiting).status_code == 200
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(scene.reset if act == "reset" else partial(scene.alter, ({"p": 1}, {"n": 2})))
        eventually((tmp_path / "asked").exists, within_s=60)
        scene.resume()
        scene.worker.wait_for_tasks(scene.name, "RUNNING")
        scene.stop()
        (tmp_path / "go").touch()
        given = answer.result(60)
    assert given.status_code == 409, given.text
    assert "make the request again" in given.json()["message"]
    assert scene.offsets() == [({"p": 1}, {"n": 1})]


@pytest.mark.parametrize(
    ("partition", "offset", "status", "message"),
    [
        (None, {"position": 1}, 400, "Partition objects cannot be null"),
        ({"filename": [1]}, {"position": 1}, 400, "A source partition may only hold"),
        ({"filename": "f"}, {"position": {"a": 1}}, 400, "A source offset may only hold"),
        ({"filename": "f"}, {"position": 1 << 64}, 400, "A source offset may only hold"),
        ({"filename": "f"}, {"at": 1}, 500, "Offset objects should either be null or contain the key 'position'"),
        ({"filename": "f"}, {"position": 0.5}, 500, "The value for the 'position' key in the offset is expected"),
        ({"name": "f"}, {"position": 1}, 500, "Partition objects should contain the key 'filename'"),
    ],
)
def test_wrong_offsets_are_refused_and_nothing_changes(
    scene: MovedOffsetsStage, partition: Any, offset: Any, status: int, message: str
) -> None:
    assert scene.create(initial_state="STOPPED").status_code == 201
    given = scene.alter((scene.partition, {"position": 2}), (partition, offset))
    assert given.status_code == status
    assert given.json()["message"].startswith(message)
    assert scene.offsets() == []


def test_offsets_of_an_unknown_connector_are_not_found(scene: MovedOffsetsStage) -> None:
    for answer in (scene.reset(), scene.move(1), scene.worker.rest.get(f"/connectors/{scene.name}/offsets")):
        assert (answer.status_code, answer.json()["message"]) == (404, f"Connector {scene.name} not found")


def test_an_offset_with_a_foreign_spelling_of_its_key_is_deleted(scene: MovedOffsetsStage) -> None:
    """Another spelling of the key, as a Java worker may have written it, is replaced and not doubled."""
    assert scene.create(initial_state="STOPPED").status_code == 201
    theirs = f'["{scene.name}",{{"b":1,"a":2}}]'.encode()
    producer = Producer({**scene.conf, "partitioner": "murmur2_random"})
    producer.produce(scene.shared_topic, key=theirs, value=b'{"position":3}')
    producer.flush(60)
    assert scene.offsets() == [({"b": 1, "a": 2}, {"position": 3})]
    assert scene.alter(({"a": 2, "b": 1}, None)).status_code == 200
    assert scene.offsets() == []
    assert scene.stored(scene.shared_topic) == {}
