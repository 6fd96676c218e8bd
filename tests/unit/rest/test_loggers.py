import logging
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from fencepost.rest import create_app
from fencepost.rest.app import Parts, RestOptions

from .fake import FakeWorker

PARENT, CHILD = "fencepost.test_loggers", "fencepost.test_loggers.child"
PATH = f"/admin/loggers/{PARENT}"


@pytest.fixture(autouse=True)
def _loggers() -> Iterator[None]:
    logging.getLogger(CHILD)
    logging.getLogger(PARENT).setLevel(logging.INFO)
    yield
    for name in (PARENT, CHILD):
        logging.getLogger(name).setLevel(logging.NOTSET)


def test_loggers_are_listed_sorted_with_root(client: TestClient) -> None:
    answer = client.get("/admin/loggers").json()
    assert list(answer) == sorted(answer)
    assert "root" in answer
    assert answer[PARENT]["level"] == "INFO"


def test_a_level_is_set_on_the_logger_and_its_children(client: TestClient) -> None:
    answer = client.put(PATH, json={"level": "warn"})
    assert (answer.status_code, answer.json()) == (200, [PARENT, CHILD])
    for name in (PARENT, CHILD):
        shown = client.get(f"/admin/loggers/{name}").json()
        assert shown["level"] == "WARN"
        assert shown["last_modified"] > 0
    assert logging.getLogger(CHILD).getEffectiveLevel() == logging.WARNING


def test_an_unchanged_level_keeps_its_time(client: TestClient) -> None:
    client.put(PATH, json={"level": "DEBUG"})
    before = client.get(PATH).json()
    client.put(PATH, json={"level": "DEBUG"})
    assert client.get(PATH).json() == before


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("GET", "/admin/loggers/no.such", None, 404, "Logger no.such not found."),
        ("PUT", PATH, {}, 400, "Desired 'level' parameter was not specified in request."),
        ("PUT", PATH, {"level": "LOUD"}, 404, "invalid log level 'LOUD'."),
        ("PUT", f"{PATH}?scope=cluster", {"level": "LOUD"}, 404, "invalid log level 'LOUD'."),
    ],
)
def test_wrong_requests_change_nothing(
    client: TestClient, method: str, path: str, body: object, status: int, message: str
) -> None:
    answer = client.request(method, path) if body is None else client.request(method, path, json=body)
    assert (answer.status_code, answer.json()["message"]) == (status, message)
    assert logging.getLogger(PARENT).level == logging.INFO


def test_a_level_for_the_cluster_is_left_to_the_workers(client: TestClient, worker: FakeWorker) -> None:
    answer = client.put(f"{PATH}?scope=Cluster", json={"level": "debug"})
    assert (answer.status_code, answer.content) == (204, b"")
    assert worker.calls == [("log_level", PARENT, "DEBUG")]
    assert logging.getLogger(PARENT).level == logging.INFO


def test_an_unknown_scope_means_this_worker(client: TestClient) -> None:
    assert client.put(f"{PATH}?scope=galaxy", json={"level": "DEBUG"}).status_code == 200


def test_loggers_are_absent_when_admin_is_off() -> None:
    client = TestClient(create_app(FakeWorker().operations, options=RestOptions(parts=Parts(has_admin=False))))
    assert client.get("/admin/loggers").status_code == 404
