import pytest
from starlette.testclient import TestClient

from fencepost.cluster.errors import BadRequestError
from fencepost.cluster.info import ConnectorOffset

from .fake import FakeWorker

PATH = "/connectors/file/offsets"
NOTHING = "Partitions / offsets need to be provided for an alter offsets request"
ALTERED = [
    {"partition": {"f": "a", "n": 1}, "offset": {"position": 4, "ratio": 0.5, "done": True, "big": 2**62}},
    {"partition": {"f": "b"}, "offset": None},
]


def test_altered_offsets_are_stored_and_shown_unchanged(client: TestClient) -> None:
    assert client.get(PATH).json() == {"offsets": []}
    answer = client.patch(PATH, json={"offsets": ALTERED})
    assert (answer.status_code, answer.json()) == (200, {"message": "altered"})
    assert client.get(PATH).json() == {"offsets": ALTERED}
    assert client.delete(PATH).json() == {"message": "reset"}
    assert client.get(PATH).json() == {"offsets": []}


@pytest.mark.parametrize("body", ["", "null", "{}", '{"offsets": null}', '{"offsets": []}'])
def test_alteration_of_nothing_is_refused(client: TestClient, body: str) -> None:
    answer = client.patch(PATH, content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["message"]) == (400, NOTHING)


@pytest.mark.parametrize(
    ("body", "begins"),
    [
        ("{half", "Cannot deserialize value"),
        ("[]", "Cannot deserialize value of type `ConnectorOffsets` from Array"),
        ('{"offset": []}', 'Unrecognized field "offset" (class ConnectorOffsets)'),
        ('{"offsets": {}}', "Cannot deserialize value of type `List<ConnectorOffset>` from Object"),
        ('{"offsets": "x"}', "Cannot deserialize value of type `List<ConnectorOffset>` from String"),
        ('{"offsets": [1]}', "Cannot deserialize value of type `ConnectorOffset` from Integer"),
        ('{"offsets": [{"partition": 1.5}]}', "Cannot deserialize value of type `LinkedHashMap<String,Object>`"),
        ('{"offsets": [{"position": 1}]}', 'Unrecognized field "position" (class ConnectorOffset)'),
        ('{"offsets": [{"partition": "x"}]}', "Cannot construct instance of `LinkedHashMap<String,Object>`"),
    ],
)
def test_unreadable_body_is_answered_as_kafka_connect_does(client: TestClient, body: str, begins: str) -> None:
    answer = client.patch(PATH, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 500
    assert answer.json()["message"].startswith(begins)


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_offsets_of_an_unknown_connector_are_not_found(client: TestClient, method: str) -> None:
    body = {"offsets": ALTERED} if method == "PATCH" else None
    answer = client.request(method, "/connectors/none/offsets", json=body)
    assert (answer.status_code, answer.json()["message"]) == (404, "Connector none not found")


def test_refusal_of_the_worker_is_passed_on(client: TestClient, worker: FakeWorker) -> None:
    worker.failure = BadRequestError("Connectors must be in the STOPPED state")
    answer = client.delete(PATH)
    assert (answer.status_code, answer.json()["message"]) == (400, "Connectors must be in the STOPPED state")


def test_initial_offsets_keep_their_numbers_while_the_config_has_text(client: TestClient, worker: FakeWorker) -> None:
    body = {"name": "new", "config": {"connector.class": "FileStreamSource", "n": 1}, "initial_offsets": ALTERED}
    answer = client.post("/connectors", json=body)
    assert answer.status_code == 201
    assert answer.json()["offsets_status"] == "altered"
    assert answer.json()["config"]["n"] == "1"
    assert worker.offsets["new"] == [ConnectorOffset(one["partition"], one["offset"]) for one in ALTERED]


def test_create_without_initial_offsets_answers_without_offsets_status(client: TestClient) -> None:
    answer = client.post("/connectors", json={"name": "new", "config": {"connector.class": "FileStreamSource"}})
    assert "offsets_status" not in answer.json()


def test_gaps_of_a_mirror_are_shown_and_an_unknown_connector_has_none(client: TestClient, worker: FakeWorker) -> None:
    gap = {
        "cluster": "west", "topic": "t", "partition": 0, "reason": "truncated", "position": 5, "log_start": 9,
        "log_end": 12, "topic_id": "x", "time_ms": 1,
    }  # fmt: skip
    assert client.get("/connectors/file/gaps").json() == {"gaps": []}
    worker.gaps = [gap]
    assert client.get("/connectors/file/gaps").json() == {"gaps": [gap]}
    assert client.get("/connectors/none/gaps").status_code == 404
