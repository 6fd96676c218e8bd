import logging

import pytest
from starlette.testclient import TestClient

from fencepost.cluster.errors import ConflictError, ForbiddenError, NotReadyError, OperationError, RequestTimeoutError
from support.no_exception import no_exceptions

from .fake import FakeWorker

JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", "/nonsense", 404, "HTTP 404 Not Found"),
        ("GET", "/connectors/file/nonsense", 404, "HTTP 404 Not Found"),
        ("GET", "/connectors/file/tasks-config", 404, "HTTP 404 Not Found"),
        ("GET", "/connectors//status", 404, "HTTP 404 Not Found"),
        ("GET", "/redoc", 404, "HTTP 404 Not Found"),
        ("DELETE", "/connectors", 405, "HTTP 405 Method Not Allowed"),
        ("POST", "/connectors/file", 405, "HTTP 405 Method Not Allowed"),
        ("GET", "/connectors/file/pause", 405, "HTTP 405 Method Not Allowed"),
        ("PUT", "/", 405, "HTTP 405 Method Not Allowed"),
    ],
)
def test_unknown_paths_and_methods_have_the_same_body_shape(
    client: TestClient, method: str, path: str, status: int, message: str
) -> None:
    answer = client.request(method, path)
    assert (answer.status_code, answer.json()) == (status, {"error_code": status, "message": message})
    assert answer.headers["content-type"] == "application/json"


def test_openapi_document_allows_get_and_head_only(client: TestClient) -> None:
    answer = client.post("/openapi.json")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "headers", [{"content-type": "text/plain"}, {"content-type": "application/x-www-form-urlencoded"}, {}]
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/connectors"),
        ("PUT", "/connectors/file/config"),
        ("PATCH", "/connectors/file/config"),
        ("PUT", "/connector-plugins/FileStreamSource/config/validate"),
    ],
)
def test_a_body_of_another_media_type_is_refused(
    client: TestClient, worker: FakeWorker, method: str, path: str, headers: dict[str, str]
) -> None:
    answer = client.request(method, path, content=b'{"name": "x", "config": {}}', headers=headers)
    expected = {"error_code": 415, "message": "HTTP 415 Unsupported Media Type"}
    assert (answer.status_code, answer.json()) == (415, expected)
    assert worker.calls == []


@pytest.mark.parametrize(
    ("body", "start"),
    [
        (b"{", "Cannot deserialize value"),
        ('{"name": "x"}'.encode("utf-16"), "Cannot deserialize value: the request body is UTF-16; send it as UTF-8"),
        (b'{"name": ', "Cannot deserialize value: the request body is not valid JSON (Expecting value: line 1"),
        (b"\xff\xfe", "Cannot deserialize value"),
        (b'{"name": NaN}', "Cannot deserialize value"),
        (b'{"name": "\\ud800", "config": {}}', "Cannot deserialize value"),
        (b"[" * 100_000, "Cannot deserialize value"),
        (b"[]", "Cannot deserialize value of type `CreateConnectorRequest` from Array value"),
        (b"true", "Cannot deserialize value of type `CreateConnectorRequest` from Boolean value"),
        (b'"x"', "Cannot construct instance of `CreateConnectorRequest`"),
        (b'{"name": "x", "config": []}', "Cannot deserialize value of type `Map<String,String>` from Array"),
        (b'{"name": "x", "config": "y"}', "Cannot construct instance of `Map<String,String>`"),
        (
            b'{"name": "x", "config": {"a": {}}}',
            "Cannot deserialize value of type `String` from Object value (token `JsonToken.START_OBJECT`) "
            '(through reference chain: Map<String,String>["a"])',
        ),
        (b'{"name": ["x"], "config": {}}', "Cannot deserialize value of type `String` from Array value"),
        (b'{"name": "x", "config": {}, "extra": 1}', 'Unrecognized field "extra" (class CreateConnectorRequest)'),
        (
            b'{"name": "x", "config": {}, "initial_state": "GONE"}',
            "Cannot construct instance of `InitialState`, problem: no initial state 'GONE'; "
            "give RUNNING, PAUSED or STOPPED",
        ),
    ],
)
def test_a_body_that_cannot_be_mapped_answers_500_and_changes_nothing(
    client: TestClient, worker: FakeWorker, body: bytes, start: str
) -> None:
    answer = client.post("/connectors", content=body, headers=JSON)
    assert answer.status_code == 500
    assert answer.json()["error_code"] == 500
    assert answer.json()["message"].startswith(start)
    assert worker.calls == []


def test_a_body_that_is_too_large_answers_413(client: TestClient) -> None:
    answer = client.put("/connectors/x/config", content=b" " * (16 * 1024 * 1024 + 1), headers=JSON)
    assert (answer.status_code, answer.json()["error_code"]) == (413, 413)


class OddConflictError(ConflictError):
    """A kind of conflict that the REST layer has never heard of."""


STALE = (
    "Cannot complete request momentarily due to stale configuration (typically caused by a concurrent config change)"
)
STAGE = (
    "Request timed out. The worker is currently writing a config for connector file to the config topic, "
    "which began at 2026-01-01T00:00:00Z."
)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConflictError(STALE), 409),
        (OddConflictError("odd"), 409),
        (ForbiddenError("no"), 403),
        (NotReadyError("not yet"), 503),
        (RequestTimeoutError(STAGE), 500),
        (OperationError("Failed to write to config topic"), 500),
    ],
)
def test_an_operation_error_keeps_its_text(
    client: TestClient, worker: FakeWorker, error: OperationError, status: int
) -> None:
    worker.failure = error
    answer = client.get("/connectors/file")
    assert (answer.status_code, answer.json()) == (status, {"error_code": status, "message": error.message})


def test_an_unexpected_error_is_logged_and_its_text_is_not_shown(
    client: TestClient, worker: FakeWorker, caplog: pytest.LogCaptureFixture
) -> None:
    worker.failure = RuntimeError("password=hunter2")
    with caplog.at_level(logging.ERROR, "fencepost.rest.response"):
        answer = client.put("/connectors/file/pause")
    assert answer.json() == {
        "error_code": 500,
        "message": "Unexpected RuntimeError; the log of this worker has the details.",
    }
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "PUT /connectors/file/pause" in caplog.text


@pytest.mark.parametrize("error", no_exceptions(), ids=repr)
def test_base_exception_of_an_authors_code_answers_500(
    client: TestClient, worker: FakeWorker, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    """asyncio would take CancelledError for the end of the request, and SystemExit for its own end."""
    worker.failure = error
    with caplog.at_level(logging.ERROR, "fencepost.rest.response"):
        answer = client.get("/connectors/file")
    assert (answer.status_code, answer.json()["error_code"]) == (500, 500)
    assert type(error).__name__ in caplog.text
    worker.failure = None
    assert client.get("/connectors/file").status_code == 200
