"""Forms change something only if a page of this worker has sent them."""

import pytest
from starlette.testclient import TestClient

from fencepost.rest import create_app
from fencepost.rest.app import Parts, RestOptions
from rest.fake import FakeWorker

PAUSE = "/ui/connectors/file/pause"


def token(client: TestClient) -> str:
    return client.cookies["fencepost-form"]


def test_a_form_with_its_token_acts(worker: FakeWorker, client: TestClient) -> None:
    answer = client.post(PAUSE, data={"token": token(client)}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/connectors/file")
    assert worker.connectors["file"].state == "PAUSED"


@pytest.mark.parametrize("sent", ["", "x" * 43, "é" * 43])
def test_a_form_without_its_token_is_refused(worker: FakeWorker, client: TestClient, sent: str) -> None:
    answer = client.post(PAUSE, data={"token": sent})
    assert answer.status_code == 403
    assert "no valid token" in answer.text
    assert worker.connectors["file"].state == "RUNNING"


def test_a_form_of_a_browser_without_the_cookie_is_refused(worker: FakeWorker, client: TestClient) -> None:
    kept = token(client)
    client.cookies.clear()
    assert client.post(PAUSE, data={"token": kept}).status_code == 403
    assert worker.connectors["file"].state == "RUNNING"


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://elsewhere.example"},
        {"origin": "null"},
    ],
)
def test_form_of_another_site_is_refused_even_when_cors_allows_its_origin(
    worker: FakeWorker, headers: dict[str, str]
) -> None:
    client = TestClient(
        create_app(worker.operations, options=RestOptions(allow_origin="*")), base_url="http://localhost"
    )
    client.get("/ui")
    answer = client.post(PAUSE, data={"token": token(client)}, headers=headers)
    assert answer.status_code == 403
    assert worker.connectors["file"].state == "RUNNING"


def test_the_cookie_is_for_the_pages_of_this_site_alone(worker: FakeWorker) -> None:
    client = TestClient(create_app(worker.operations), base_url="https://localhost")
    cookie = client.get("/ui").headers["set-cookie"]
    assert {"HttpOnly", "Path=/ui", "SameSite=strict", "Secure"} <= set(cookie.split("; "))


def test_a_refusal_is_a_page_with_the_reason(client: TestClient) -> None:
    answer = client.post("/ui/connectors/absent/pause", data={"token": token(client)})
    assert answer.status_code == 404
    assert "Unknown connector absent" in answer.text
    assert answer.headers["content-type"].startswith("text/html")


def test_rest_still_answers_json(client: TestClient) -> None:
    assert client.get("/").json()["version"] == "4.3.1"
    assert client.get("/connectors/absent").json()["error_code"] == 404


def test_without_the_ui_its_paths_do_not_exist(worker: FakeWorker) -> None:
    client = TestClient(create_app(worker.operations, options=RestOptions(parts=Parts(has_ui=False))))
    assert client.get("/ui").status_code == 404
    assert client.get("/connectors").json() == ["file"]
