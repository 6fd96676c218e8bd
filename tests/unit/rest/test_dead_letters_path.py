"""`/connectors/C/dead-letters`: what is asked of the worker, and what is refused before that."""

import logging

import pytest
from starlette.testclient import TestClient

from fencepost.cluster.errors import ConflictError
from fencepost.cluster.topic_records import LetterQuery, ResendRequest

from .fake import FakeWorker, dead_letter

PATH = "/connectors/file/dead-letters"
RESEND = f"{PATH}/resend"


def test_page_of_dead_letters_is_requested_by_limit_and_position(worker: FakeWorker, client: TestClient) -> None:
    worker.letters = [dead_letter("x")]
    assert [one["letter"] for one in client.get(PATH).json()["letters"]] == ["dead-0@4"]
    client.get(PATH, params={"limit": 7, "before": "0:4,1:9"})
    assert worker.calls == [("letters", "file", LetterQuery()), ("letters", "file", LetterQuery(7, "0:4,1:9"))]
    assert {client.get(PATH, params={"limit": n}).status_code for n in ("0", "51", "many")} == {404}


@pytest.mark.parametrize(
    ("body", "request_"),
    [
        (None, ResendRequest()),
        ({}, ResendRequest()),
        ({"letters": ["dead-0@4"]}, ResendRequest(["dead-0@4"])),
        ({"skip": ["dead-0@4", "orders"]}, ResendRequest(None, ["dead-0@4", "orders"])),
    ],
)
def test_resend_is_started_with_the_selection_in_the_body(
    worker: FakeWorker, client: TestClient, body: object, request_: ResendRequest
) -> None:
    answer = client.post(RESEND) if body is None else client.post(RESEND, json=body)
    assert (answer.status_code, answer.json()["state"]) == (202, "counting")
    assert worker.calls == [("resend", "file", request_)]


@pytest.mark.parametrize(
    ("body", "status", "begins"),
    [
        ({"letters": []}, 400, "letters: name at least one"),
        ({"letters": "dead-0@4"}, 500, "Cannot deserialize value of type `List<String>`"),
        ({"letters": [{}]}, 500, "Cannot deserialize value of type `List<String>`"),
        ({"letter": ["dead-0@4"]}, 500, 'Unrecognized field "letter"'),
        ([], 500, "Cannot deserialize value"),
    ],
)
def test_resend_is_refused_when_its_body_is_malformed(
    worker: FakeWorker, client: TestClient, body: object, status: int, begins: str
) -> None:
    answer = client.post(RESEND, json=body)
    assert (answer.status_code, answer.json()["message"][: len(begins)]) == (status, begins)
    assert worker.calls == []


def test_a_second_resend_is_a_conflict(worker: FakeWorker, client: TestClient) -> None:
    worker.failure = ConflictError("Dead letters of connector file are being resent already")
    answer = client.post(RESEND)
    assert (answer.status_code, "already" in answer.json()["message"]) == (409, True)


def test_resends_and_reads_of_dead_letters_are_in_the_audit_log(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "fencepost.rest.audit"):
        client.get(PATH)
        client.post(RESEND, json={})
    lines = [record.getMessage() for record in caplog.records if record.name == "fencepost.rest.audit"]
    assert len(lines) == 2
    assert f'method=GET path="{PATH}" status=200' in lines[0]
    assert f'method=POST path="{RESEND}" status=202' in lines[1]
