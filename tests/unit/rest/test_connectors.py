import json

import pytest
from starlette.testclient import TestClient

from fencepost.cluster.info import InitialState

from .fake import FakeConnector, FakeWorker

SOURCE = {"connector.class": "FileStreamSource", "file": "/tmp/in"}
INFO = {
    "name": "file",
    "config": {"name": "file", "connector.class": "FileStreamSource", "tasks.max": "2", "file": "/tmp/in"},
    "tasks": [{"connector": "file", "task": 0}, {"connector": "file", "task": 1}],
    "type": "source",
}
STATUS = {
    "name": "file",
    "connector": {"state": "RUNNING", "worker_id": "localhost:8083", "version": "4.3.1"},
    "tasks": [
        {"id": 0, "state": "RUNNING", "worker_id": "localhost:8083"},
        {"id": 1, "state": "RUNNING", "worker_id": "localhost:8083"},
    ],
    "type": "source",
}
ODD_NAMES = ["a/b", "a%2Fb", "with space", "semi;colon", "100%", "ünï→", "a?b#c", "..", "name+plus", "%41"]


def test_list_gives_names(client: TestClient) -> None:
    assert client.get("/connectors").json() == ["file"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("expand=status", {"file": {"status": STATUS}}),
        ("expand=info", {"file": {"info": INFO}}),
        ("expand=status&expand=info", {"file": {"status": STATUS, "info": INFO}}),
        ("expand=nonsense", {"file": {}}),
        ("expand=nonsense&expand=info", {"file": {"info": INFO}}),
    ],
)
def test_list_expands_the_requested_parts(client: TestClient, query: str, expected: object) -> None:
    answer = client.get(f"/connectors?{query}")
    assert (answer.status_code, answer.json()) == (200, expected)


def test_expanded_list_is_an_empty_object_when_there_are_no_connectors(client: TestClient, worker: FakeWorker) -> None:
    worker.connectors.clear()
    assert client.get("/connectors?expand=nonsense").json() == {}
    assert client.get("/connectors").json() == []


def test_expanded_list_leaves_out_a_connector_without_status(
    client: TestClient, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "connector_statuses", dict)
    assert client.get("/connectors?expand=status&expand=info").json() == {}


def test_create_answers_201_with_location_and_info(client: TestClient) -> None:
    answer = client.post("/connectors", json={"name": "new", "config": SOURCE})
    assert answer.status_code == 201
    assert answer.headers["location"] == "/connectors/new"
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {"name": "new", "config": {**SOURCE, "name": "new"}, "tasks": [], "type": "source"}


def test_create_trims_the_name_and_fills_it_in(client: TestClient, worker: FakeWorker) -> None:
    assert client.post("/connectors", json={"name": " \tnew\n", "config": SOURCE}).status_code == 201
    assert worker.calls == [("create", "new", {**SOURCE, "name": "new"}, None)]


def test_create_without_name_leaves_the_empty_name_to_validation(client: TestClient, worker: FakeWorker) -> None:
    client.post("/connectors", json={"config": SOURCE})
    assert worker.calls[0][:2] == ("create", "")


@pytest.mark.parametrize(
    ("sent", "state"),
    [
        ("STOPPED", InitialState.STOPPED),
        ("paused", InitialState.PAUSED),
        ("Running", InitialState.RUNNING),
        (None, None),
    ],
)
def test_create_reads_initial_state_in_any_case(
    client: TestClient, worker: FakeWorker, sent: str | None, state: InitialState | None
) -> None:
    body = {"name": "new", "config": SOURCE, "initial_state": sent}
    assert client.post("/connectors", json=body).status_code == 201
    assert worker.calls[0][3] == state


def test_numbers_and_booleans_in_a_config_become_strings_as_they_were_written(
    client: TestClient, worker: FakeWorker
) -> None:
    body = b'{"connector.class": "S", "a": 10, "b": 1.50, "c": true, "d": false, "e": 1e3}'
    client.put("/connectors/new/config", content=body, headers={"content-type": "application/json"})
    expected = {"connector.class": "S", "a": "10", "b": "1.50", "c": "true", "d": "false", "e": "1e3"}
    assert worker.calls[0] == ("put", "new", {**expected, "name": "new"})


def test_null_values_reach_validation(client: TestClient) -> None:
    answer = client.put("/connectors/new/config", json={**SOURCE, "file": None})
    assert answer.status_code == 400
    assert answer.json()["message"] == (
        "Connector configuration is invalid and contains the following 1 error(s):\n"
        "Null value can not be supplied as the configuration value."
    )


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("POST", "/connectors", {"name": "file", "config": SOURCE}, 409, "Connector file already exists"),
        (
            "POST",
            "/connectors",
            {"name": "x", "config": {**SOURCE, "name": "y"}},
            400,
            "Connector name configuration (y) doesn't match connector name in the URL (x)",
        ),
        (
            "PUT",
            "/connectors/x/config",
            {**SOURCE, "name": "y"},
            400,
            "Connector name configuration (y) doesn't match connector name in the URL (x)",
        ),
        (
            "PATCH",
            "/connectors/file/config",
            {"name": "y"},
            400,
            "Connector name configuration (y) doesn't match connector name in the URL (file)",
        ),
        ("PATCH", "/connectors/none/config", {"a": "b"}, 404, "Connector none not found"),
        (
            "PUT",
            "/connectors/x/config",
            {},
            400,
            "Connector configuration is invalid and contains the following 1 error(s):\n"
            'Missing required configuration "connector.class" which has no default value.',
        ),
        ("GET", "/connectors/none", None, 404, "Connector none not found"),
        ("GET", "/connectors/none/config", None, 404, "Connector none not found"),
        ("GET", "/connectors/none/status", None, 404, "No status found for connector none"),
        ("GET", "/connectors/none/tasks", None, 404, "Connector none not found"),
        ("DELETE", "/connectors/none", None, 404, "Connector none not found"),
        ("POST", "/connectors", None, 400, 'The request body lacks "name" and "config"; send it as JSON.'),
        ("POST", "/connectors", {"name": "x"}, 400, 'The request body lacks "config"; send it as JSON.'),
        (
            "PUT",
            "/connectors/x/config",
            None,
            400,
            "The request body lacks a connector config; send it as JSON.",
        ),
    ],
)
def test_refusals_have_their_code_and_text(
    client: TestClient, method: str, path: str, body: object, status: int, message: str
) -> None:
    answer = client.request(method, path) if body is None else client.request(method, path, json=body)
    assert (answer.status_code, answer.json()) == (status, {"error_code": status, "message": message})


def test_get_answers_info(client: TestClient) -> None:
    assert client.get("/connectors/file").json() == INFO


def test_get_config_answers_the_map(client: TestClient) -> None:
    assert client.get("/connectors/file/config").json() == INFO["config"]


def test_put_answers_201_with_location_when_it_creates(client: TestClient) -> None:
    answer = client.put("/connectors/new/config", json=SOURCE)
    assert (answer.status_code, answer.headers["location"]) == (201, "/connectors/new")


def test_put_answers_200_with_the_tasks_from_before_when_it_changes(client: TestClient) -> None:
    answer = client.put("/connectors/file/config", json={**SOURCE, "tasks.max": "7"})
    assert answer.status_code == 200
    assert "location" not in answer.headers
    assert len(answer.json()["tasks"]) == 2


def test_patch_sets_and_removes(client: TestClient) -> None:
    answer = client.patch("/connectors/file/config", json={"tasks.max": None, "topic": "t"})
    assert answer.status_code == 200
    assert answer.json()["config"] == {**SOURCE, "name": "file", "topic": "t"}


def test_status_sorts_tasks_and_leaves_out_an_empty_trace(client: TestClient) -> None:
    assert client.get("/connectors/file/status").json() == STATUS


@pytest.mark.parametrize("trace", ["Traceback: boom", "bad \udcff byte"])
def test_status_shows_a_trace(client: TestClient, worker: FakeWorker, trace: str) -> None:
    worker.connectors["file"].trace = trace
    assert client.get("/connectors/file/status").json()["connector"]["trace"] == trace


def test_delete_answers_204_without_body(client: TestClient) -> None:
    answer = client.delete("/connectors/file")
    assert (answer.status_code, answer.content) == (204, b"")
    assert client.get("/connectors").json() == []


@pytest.mark.parametrize("name", ODD_NAMES)
def test_connectors_with_odd_names_can_be_created_read_and_deleted(
    client: TestClient, worker: FakeWorker, name: str
) -> None:
    created = client.post("/connectors", json={"name": name, "config": SOURCE})
    assert created.status_code == 201
    location = created.headers["location"].replace("..", "%2E%2E")
    assert client.get(location).json()["name"] == name
    assert client.get(location + "/status").json()["name"] == name
    assert client.put(location + "/config", json=SOURCE).status_code == 200
    assert client.get(location + "/topics").json() == {name: {"topics": []}}
    assert client.put(location + "/pause").status_code == 202
    assert client.delete(location).status_code == 204
    assert name not in worker.connectors


def test_an_encoded_slash_is_part_of_the_name_and_a_plain_one_is_not(client: TestClient, worker: FakeWorker) -> None:
    worker.connectors["file/status"] = FakeConnector({"name": "file/status"})
    assert "type" in client.get("/connectors/file%2Fstatus").json()
    assert client.get("/connectors/file%2Fstatus").json()["name"] == "file/status"
    assert client.get("/connectors/file/status").json()["name"] == "file"


@pytest.mark.parametrize("path", ["/connectors/", "/connectors/file/", "/connectors/file/status/", "/connector%73"])
def test_a_trailing_slash_and_needless_encoding_do_not_matter(client: TestClient, path: str) -> None:
    assert client.get(path, follow_redirects=False).status_code == 200


@pytest.mark.parametrize("forward", ["true", "false", "True"])
def test_the_forward_parameter_is_accepted(client: TestClient, forward: str) -> None:
    body = json.dumps({"name": "new", "config": SOURCE})
    answer = client.post(
        f"/connectors?forward={forward}", content=body, headers={"content-type": "application/json; charset=utf-8"}
    )
    assert answer.status_code == 201
