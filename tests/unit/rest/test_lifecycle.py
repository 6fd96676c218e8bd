import pytest
from starlette.testclient import TestClient

from .fake import FakeWorker


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PUT", "pause", 202),
        ("PUT", "resume", 202),
        ("PUT", "stop", 204),
        ("PUT", "topics/reset", 202),
        ("POST", "restart", 204),
        ("POST", "tasks/1/restart", 204),
    ],
)
def test_repeated_commands_answer_the_same_code_without_body(
    client: TestClient, method: str, path: str, status: int
) -> None:
    if path == "stop":
        assert client.put("/connectors/file/stop").status_code == 204
    for _ in range(2):
        answer = client.request(method, f"/connectors/file/{path}")
        assert (answer.status_code, answer.content) == (status, b"")


@pytest.mark.parametrize(
    ("method", "path", "message"),
    [
        ("PUT", "none/pause", "Unknown connector none"),
        ("PUT", "none/resume", "Unknown connector none"),
        ("PUT", "none/stop", "Unknown connector none"),
        ("POST", "none/restart", "Unknown connector: none"),
        ("POST", "none/restart?includeTasks=true", "Status for connector none not found"),
        ("POST", "none/tasks/0/restart", "Unknown connector: none"),
        ("POST", "file/tasks/2/restart", "Unknown task: file-2"),
        ("GET", "file/tasks/2/status", "No status found for task file-2"),
        ("GET", "none/tasks/0/status", "No status found for task none-0"),
        ("GET", "file/tasks/x/status", "HTTP 404 Not Found"),
        ("GET", "file/tasks/-1/status", "HTTP 404 Not Found"),
        ("POST", f"file/tasks/{'9' * 5000}/restart", "HTTP 404 Not Found"),
    ],
)
def test_unknown_connector_or_task_answers_404(client: TestClient, method: str, path: str, message: str) -> None:
    answer = client.request(method, f"/connectors/{path}")
    assert (answer.status_code, answer.json()) == (404, {"error_code": 404, "message": message})


@pytest.mark.parametrize(
    ("query", "status", "state"),
    [
        ("", 204, None),
        ("?includeTasks=false&onlyFailed=False", 204, None),
        ("?includeTasks=nonsense", 204, None),
        ("?includeTasks=true", 202, "RESTARTING"),
        ("?includeTasks=True&onlyFailed=False", 202, "RESTARTING"),
        ("?includeTasks=TRUE&onlyFailed=TRUE", 202, "RUNNING"),
        ("?onlyFailed=true", 202, "RUNNING"),
    ],
)
def test_restart_reads_its_flags_in_any_case(client: TestClient, query: str, status: int, state: str | None) -> None:
    answer = client.post(f"/connectors/file/restart{query}")
    assert answer.status_code == status
    if state is None:
        assert answer.content == b""
    else:
        assert answer.json()["connector"]["state"] == state
        assert [task["id"] for task in answer.json()["tasks"]] == [0, 1]


def test_tasks_are_listed_with_their_configs(client: TestClient) -> None:
    assert client.get("/connectors/file/tasks").json() == [
        {"id": {"connector": "file", "task": n}, "config": {"task.class": "FileStreamSourceTask"}} for n in range(2)
    ]


def test_a_task_has_a_status(client: TestClient) -> None:
    expected = {"id": 1, "state": "RUNNING", "worker_id": "localhost:8083"}
    assert client.get("/connectors/file/tasks/1/status").json() == expected


def test_topics_are_listed_and_forgotten(client: TestClient) -> None:
    assert client.get("/connectors/file/topics").json() == {"file": {"topics": ["lines"]}}
    client.put("/connectors/file/topics/reset")
    assert client.get("/connectors/file/topics").json() == {"file": {"topics": []}}


def test_topics_of_an_unknown_connector_are_an_empty_list(client: TestClient) -> None:
    assert client.get("/connectors/none/topics").json() == {"none": {"topics": []}}


@pytest.mark.parametrize(("method", "path"), [("GET", "topics"), ("PUT", "topics/reset")])
def test_topics_answer_403_when_tracking_is_off(client: TestClient, worker: FakeWorker, method: str, path: str) -> None:
    worker.is_tracking_topics = False
    answer = client.request(method, f"/connectors/file/{path}")
    assert (answer.status_code, answer.json()["message"]) == (403, "Topic tracking is disabled.")
