"""`/retention`: what is said of topics that sinks' commits empty."""

from .conftest import TestClient
from .fake import FakeWorker


def test_retention_answer_names_the_end_and_the_holder_of_each_topic(client: TestClient, worker: FakeWorker) -> None:
    held = {"partition": 0, "start": 5, "end": 9, "until": 7, "held_by": "sink connector c, which has committed 7"}
    topic = {
        "topic": "t", "refused": None, "error": None, "deleted": 5, "last_deletion": "1970-01-01T00:00:01.000Z",
        "partitions": [held],
    }  # fmt: skip
    expected = {"enabled": True, "decided": "1970-01-01T00:00:02.000Z", "error": None, "requests": 0, "topics": [topic]}
    assert client.get("/retention").json() == expected
    assert client.get("/retention/t").json() == topic


def test_retention_preview_is_requested_with_the_dry_parameter(client: TestClient, worker: FakeWorker) -> None:
    assert client.get("/retention?dry=true").json()["enabled"] is False
    assert client.get("/retention/t?dry=True").json()["last_deletion"] is None


def test_a_topic_of_which_nothing_is_decided_is_not_found(client: TestClient, worker: FakeWorker) -> None:
    answer = client.get("/retention/other")
    assert answer.status_code == 404
    assert "delete.committed.topics" in answer.json()["message"]
