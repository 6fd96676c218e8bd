"""`initial_offsets` (KIP-995) and `initial_state` (KIP-980) of a new connector: all of it, or nothing."""

from typing import Any

import pytest
from moved import EVERYWHERE, MovedOffsetsStage

from fencepost.testing import eventually
from support.long_form import IS_LONG

LONG = pytest.mark.skipif(not IS_LONG, reason="FENCEPOST_CHAOS=long runs these")
ALTERED = "The offsets for this connector have been altered successfully"


def initial(scene: MovedOffsetsStage, position: int) -> list[dict[str, Any]]:
    return [{"partition": scene.partition, "offset": {"position": position}}]


def is_absent(scene: MovedOffsetsStage) -> bool:
    return scene.name not in scene.worker.rest.get("/connectors").json()


@pytest.mark.parametrize("scene", EVERYWHERE, indirect=True)
def test_connector_starts_at_initial_offsets_and_old_offsets_are_gone(scene: MovedOffsetsStage) -> None:
    assert scene.create(initial_state="STOPPED").status_code == 201
    leftover = {"filename": "of another file"}
    assert scene.alter((leftover, {"position": 1}), (scene.partition, {"position": 2})).status_code == 200
    taken = scene.create(initial_offsets=initial(scene, 4))
    assert (taken.status_code, taken.json()["message"]) == (409, f"Connector {scene.name} already exists")
    kept = sorted(offset["position"] for _, offset in scene.offsets())
    assert kept == [1, 2]
    assert scene.worker.rest.delete(f"/connectors/{scene.name}").status_code == 204
    answer = scene.create(initial_offsets=initial(scene, 16))
    assert (answer.status_code, answer.json().get("offsets_status")) == (201, ALTERED)
    assert scene.lines(2) == ["8", "9"]
    eventually(lambda: [(p, o["position"]) for p, o in scene.offsets()] == [(scene.partition, 20)])


@pytest.mark.parametrize("state", ["STOPPED", "PAUSED"])
def test_initial_offsets_and_an_initial_state_go_together(scene: MovedOffsetsStage, state: str) -> None:
    assert scene.create(initial_offsets=initial(scene, 16), initial_state=state).status_code == 201
    eventually(lambda: scene.worker.status(scene.name).get("connector", {}).get("state") == state)
    assert scene.worker.status(scene.name)["tasks"] == []
    assert scene.offsets() == [(scene.partition, {"position": 16})]
    scene.resume()
    assert scene.lines(2) == ["8", "9"]


@pytest.mark.parametrize("scene", ["worker's topic", pytest.param("own topic", marks=LONG)], indirect=True)
@pytest.mark.parametrize(
    ("offsets", "status", "message"),
    [
        ([], 400, "Partitions / offsets need to be provided"),
        ([{"partition": None, "offset": {"position": 1}}], 400, "Partition objects cannot be null"),
        ([{"partition": {"filename": "f"}, "offset": {"at": 1}}], 500, "Offset objects should either be null or"),
        ([{"partition": {"filename": "f"}, "offset": {"position": [1]}}], 400, "A source offset may only hold"),
        ({"filename": "f"}, 500, "Cannot deserialize value of type `List<ConnectorOffset>`"),
    ],
)
def test_connector_with_wrong_offsets_is_not_created(
    scene: MovedOffsetsStage, offsets: Any, status: int, message: str
) -> None:
    answer = scene.create(initial_offsets=offsets)
    assert answer.status_code == status
    assert answer.json()["message"].startswith(message)
    assert is_absent(scene)
    assert scene.create(initial_state="STOPPED").status_code == 201
    assert scene.offsets() == []


def test_invalid_config_leaves_no_offsets(scene: MovedOffsetsStage) -> None:
    config = {**scene.config(), "tasks.max": "0"}
    answer = scene.worker.create(scene.name, config, initial_offsets=initial(scene, 16))
    assert answer.status_code == 400
    assert is_absent(scene)
    assert scene.stored(scene.shared_topic) == {}


def test_unknown_initial_state_leaves_no_offsets(scene: MovedOffsetsStage) -> None:
    answer = scene.create(initial_offsets=initial(scene, 16), initial_state="ASLEEP")
    assert answer.status_code == 500
    assert answer.json()["message"].startswith("Cannot construct instance of `InitialState`")
    assert is_absent(scene)
    assert scene.stored(scene.shared_topic) == {}
