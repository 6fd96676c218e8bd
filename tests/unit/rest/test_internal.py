import pytest
from starlette.testclient import TestClient

from fencepost.cluster.errors import NotReadyError

from .fake import SIGNATURE, FakeConnector, FakeWorker

JSON = {"content-type": "application/json"}


def test_task_configs_reach_the_leader_when_signed(client: TestClient, worker: FakeWorker) -> None:
    headers = {**JSON, SIGNATURE: "POST /connectors/file/tasks 17"}
    answer = client.post("/connectors/file/tasks", content=b'[{"a":"b"},{"c":1', headers=headers)
    assert answer.status_code == 500
    headers[SIGNATURE] = "POST /connectors/file/tasks 19"
    answer = client.post("/connectors/file/tasks", content=b'[{"a":"b"},{"c":1}]', headers=headers)
    assert (answer.status_code, answer.content) == (204, b"")
    assert worker.calls == [("task_configs", "file", [{"a": "b"}, {"c": "1"}])]


def test_signature_covers_the_encoded_path(client: TestClient, worker: FakeWorker) -> None:
    worker.connectors["a/b"] = FakeConnector({"connector.class": "FileStreamSource"})
    headers = {SIGNATURE: "PUT /connectors/a%2Fb/fence 0"}
    assert client.put("/connectors/a%2Fb/fence", headers=headers).status_code == 204


@pytest.mark.parametrize(("method", "path"), [("POST", "tasks"), ("PUT", "fence")])
@pytest.mark.parametrize("name", ["file", "none"])
@pytest.mark.parametrize(("headers", "status"), [({}, 400), ({SIGNATURE: "wrong"}, 403)])
def test_the_signature_is_checked_before_anything_else(
    client: TestClient, method: str, path: str, name: str, headers: dict[str, str], status: int
) -> None:
    answer = client.request(method, f"/connectors/{name}/{path}", headers=headers)
    assert (answer.status_code, answer.json()["error_code"]) == (status, status)


def test_internal_requests_answer_503_before_the_session_key_is_known(client: TestClient, worker: FakeWorker) -> None:
    worker.failure = NotReadyError("This worker is still starting up")
    assert client.put("/connectors/file/fence").status_code == 503


@pytest.mark.parametrize(
    ("name", "status", "message"),
    [
        ("none", 404, "Connector none not found"),
        ("sink", 400, "Connector sink is not a source connector"),
    ],
)
def test_fence_is_refused_for_sinks_and_unknown_connectors(
    client: TestClient, worker: FakeWorker, name: str, status: int, message: str
) -> None:
    worker.connectors["sink"] = FakeConnector({"connector.class": "FileStreamSink"})
    answer = client.put(f"/connectors/{name}/fence", headers={SIGNATURE: f"PUT /connectors/{name}/fence 0"})
    assert (answer.status_code, answer.json()["message"]) == (status, message)
