"""An answer does not say whether a text that the caller has sent is a password that this worker knows."""

import json
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from fencepost.cluster.errors import BadRequestError
from fencepost.cluster.info import KeyReport, KeyValue
from fencepost.rest import create_app
from fencepost.rest.access.access import Access
from fencepost.rest.access.principal import Rules
from fencepost.rest.app import RestOptions
from fencepost.rest.ui.config import shown
from fencepost.secret.known import hold
from fencepost.worker.validation.validation import shown as shown_report

from .fake import FakeWorker
from .test_guard import RIGHT, Passwords

PASSWORD, WRONG = "Summer2024!", "Winter2023!"
JSON = {"content-type": "application/json"}


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    """The password of another team's connector, which is in use."""
    release = hold([PASSWORD])
    yield
    release()


@pytest.mark.parametrize("path", ["/connectors/{}/status", "/connectors/x{}/config", "/ui/connectors/{}"])
def test_error_shows_a_name_in_the_path_even_when_it_equals_a_password(client: TestClient, path: str) -> None:
    right, wrong = (client.get(path.format(text.replace("!", "%21"))) for text in (PASSWORD, WRONG))
    assert right.status_code == wrong.status_code == 404
    assert right.text.replace(PASSWORD, WRONG) == wrong.text
    assert "hidden]" not in right.text


def test_error_for_a_missing_role_does_not_repeat_the_requested_name(worker: FakeWorker) -> None:
    access = Access({"basic": Passwords()}, rules=lambda: Rules(()))
    client = TestClient(create_app(worker.operations, options=RestOptions(access=access)))
    answer = client.get(f"/connectors/{PASSWORD}/status", headers=RIGHT)
    assert (answer.status_code, answer.json()["message"]) == (403, "alice needs the role view for this connector")


@pytest.mark.parametrize(
    "body",
    [f'{{"name": "x", "config": {{"file": "{PASSWORD}"}}}}', f'{{"name": "x", "config": {{"{PASSWORD}": "1"}}}}',
     '{"name": "x", "config": {"file": "\\u0053ummer2024!"}}'],
)  # fmt: skip
def test_error_repeats_a_text_of_the_body_unchanged(client: TestClient, worker: FakeWorker, body: str) -> None:
    worker.failure = BadRequestError(f"no file {PASSWORD}")
    assert client.post("/connectors", content=body, headers=JSON).json()["message"] == f"no file {PASSWORD}"


@pytest.mark.parametrize("text", [PASSWORD, WRONG])
def test_error_never_repeats_the_value_of_a_secret_key(client: TestClient, worker: FakeWorker, text: str) -> None:
    worker.failure = BadRequestError(f"no login with {text}")
    body = json.dumps({"name": "x", "config": {"db.password": text}})
    assert client.post("/connectors", content=body, headers=JSON).json()["message"] == "no login with [hidden]"


def test_error_hides_a_secret_that_the_caller_has_not_sent(client: TestClient, worker: FakeWorker) -> None:
    worker.failure = BadRequestError(f"no login with {PASSWORD}")
    body = json.dumps({"name": "x", "config": {"file": WRONG}})
    assert client.post("/connectors", content=body, headers=JSON).json()["message"] == "no login with [hidden]"


def test_page_and_validation_show_a_value_even_when_it_equals_a_password() -> None:
    assert shown({"file": PASSWORD}, set()) == {"file": PASSWORD}
    report = KeyReport(None, KeyValue("file", PASSWORD, errors=(f"no {PASSWORD}",), recommended_values=(PASSWORD,)))
    assert shown_report(report, {"file": PASSWORD}, {}, said=PASSWORD) == report
