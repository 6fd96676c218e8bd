"""The page with dead letters: what it offers, asks and begins, and its progress."""

import re
import threading

import pytest
from starlette.testclient import TestClient

from fencepost.cluster.topic_records import LetterPage, LetterQuery, ResendProgressInfo, ResendRequest
from rest.fake import FakeConnector, FakeDeadLetters, FakeWorker, dead_letter

PAGE = "/ui/connectors/file/dead-letters"


@pytest.fixture
def sink(worker: FakeWorker) -> FakeWorker:
    config: dict[str, str | None] = {
        "name": "file",
        "connector.class": "FileStreamSink",
        "errors.deadletterqueue.topic.name": "dead",
    }
    worker.connectors["file"] = FakeConnector(config)
    worker.letters = [dead_letter("it is newer", "dead-0@5"), dead_letter("it is older", "dead-0@4", is_handled=True)]
    return worker


def post(client: TestClient, path: str, **fields: str) -> str:
    fields = {"token": client.cookies["fencepost-form"], **fields}
    return client.post(f"{PAGE}/{path}", data=fields, follow_redirects=True).text


def resends(worker: FakeWorker) -> list[object]:
    return [call[2] for call in worker.calls if call[0] == "resend"]


def test_only_waiting_dead_letters_can_be_selected(sink: FakeWorker, client: TestClient) -> None:
    page = client.get(PAGE).text
    assert re.findall(r'name="letter\.\d+" value="([^"]+)"', page) == ["dead-0@5"]
    assert page.index("it is newer") < page.index("it is older")


def test_a_source_is_offered_no_resend(worker: FakeWorker, client: TestClient) -> None:
    worker.connectors["file"].config["errors.deadletterqueue.topic.name"] = "dead"
    worker.letters = [dead_letter("x")]
    page = client.get(PAGE).text
    assert "<code>{&#34;x&#34;: 7}</code>" in page  # its source offset
    assert ("dead-0@4" in page, "Resend all" in page, "checkbox" in page) == (True, False, False)


def test_resend_starts_only_after_it_is_confirmed(sink: FakeWorker, client: TestClient) -> None:
    question = post(client, "confirm", what="selected", **{"letter.1": "dead-0@5"})
    assert "Resend 1 dead letter?" in question
    assert "for every consumer there" in question
    assert resends(sink) == []
    fields = dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]+)"', question))
    client.post(f"{PAGE}/resend", data=fields)
    post(client, "resend", what="all")
    post(client, "resend", what="skipped", **{"letter.1": "dead-0@5"})
    selected = ["dead-0@5"]
    assert resends(sink) == [ResendRequest(selected), ResendRequest(), ResendRequest(selected, selected)]


@pytest.mark.parametrize("fields", [{"what": "selected"}, {"what": "skipped"}, {}, {"letter.1": "dead-0@5"}])
def test_empty_selection_resends_no_dead_letters(sink: FakeWorker, client: TestClient, fields: dict[str, str]) -> None:
    assert "No dead letter is selected" in post(client, "confirm", **fields)
    post(client, "resend", **{key: value for key, value in fields.items() if key == "what"})
    assert resends(sink) == []


def test_a_form_without_the_token_of_its_page_begins_nothing(sink: FakeWorker, client: TestClient) -> None:
    for path in ("confirm", "resend"):
        assert client.post(f"{PAGE}/{path}", data={"what": "all", "token": "x" * 43}).status_code == 403
    assert resends(sink) == []


def test_page_polls_the_progress_of_a_resend_until_its_end(sink: FakeWorker, client: TestClient) -> None:
    sink.resend = ResendProgressInfo("sending", 1_200, 500, started_ms=1)
    page = client.get(PAGE).text
    assert '<progress id="resend-bar" max="1200" value="500">' in page
    assert "every 1s" in page
    assert "Resend all" not in page  # nobody begins another one meanwhile
    assert 'value="500"' in client.get(f"{PAGE}/progress").text
    sink.resend = ResendProgressInfo("done", 1_200, 1_200, started_ms=1, ended_ms=2)
    ended = client.get(f"{PAGE}/progress").text
    assert ("every 1s" in ended, "<progress" in ended, 'hx-select="#letters"' in ended) == (False, False, True)
    assert 'hx-select="#letters"' not in client.get(PAGE).text


def test_an_error_of_a_resend_and_of_reading_is_shown(sink: FakeWorker, client: TestClient) -> None:
    sink.resend = ResendProgressInfo("failed", 3, 1, error="Dead letter dead-0@5 is refused")
    page = client.get(PAGE).text
    assert "failed after 1 of 3: Dead letter dead-0@5 is refused" in page


def test_dead_letters_and_the_progress_of_a_resend_are_read_concurrently(
    sink: FakeWorker, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each may take seconds."""
    both = threading.Barrier(2, timeout=60)

    def read(self: FakeDeadLetters, name: str, query: LetterQuery) -> LetterPage:
        both.wait()
        return LetterPage("dead", sink.letters)

    def progress(self: FakeDeadLetters, name: str) -> ResendProgressInfo:
        both.wait()
        return sink.resend

    monkeypatch.setattr(FakeDeadLetters, "read", read)
    monkeypatch.setattr(FakeDeadLetters, "progress", progress)
    assert "it is newer" in client.get(PAGE).text
