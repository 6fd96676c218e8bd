"""What users and other systems name and write is text on every page, never markup."""

from html.parser import HTMLParser
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from rest.fake import FakeConnector, FakeWorker

NASTY = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onclick='alert(1)",
    "{{ 7*7 }}{% raw %}",
    "a/b%2Fc?d#e;f",
    "naïve ‮ 😀 ​",
    "javascript:alert(1)",
    "</title></textarea></pre><svg/onload=alert(1)>",
]
PAGES = ["", "/live", "/config", "/edit", "/delete", "/offsets", "/logs", "/dead-letters"]


class Tags(HTMLParser):
    """Notes the tags and attributes of a page, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def ensure_plain(page: str) -> Tags:
    found = Tags(page)
    for tag, attributes in found.tags:
        assert tag != "script" or (attributes.get("src") or "").startswith("/ui/assets/"), attributes
        assert not [name for name in attributes if name.startswith("on") or name == "style"], (tag, attributes)
        for name in ("href", "src", "action", "hx-get", "hx-post"):
            assert (attributes.get(name) or "/").startswith(("/", "#")), (tag, attributes)
    return found


@pytest.mark.parametrize("text", NASTY)
def test_names_topics_and_traces_are_text(worker: FakeWorker, client: TestClient, text: str) -> None:
    config: dict[str, str | None] = {"name": text, "connector.class": text, "tasks.max": "1", text: text}
    worker.connectors = {text: FakeConnector(config, topics=[text], trace=text)}
    overview = ensure_plain(client.get("/ui").text)
    assert text in overview.text
    for page in PAGES:
        answer = client.get(f"/ui/connectors/{quote(text, safe='')}{page}")
        assert answer.status_code == 200, page
        assert text in ensure_plain(answer.text).text, page
    for page in ("/ui/lineage", "/ui/workers", f"/ui/new?plugin={quote(text)}"):
        ensure_plain(client.get(page).text)


def test_a_text_of_an_error_is_text(client: TestClient) -> None:
    answer = client.get(f"/ui/connectors/{quote(NASTY[0], safe='')}")
    assert answer.status_code == 404
    assert NASTY[0] in ensure_plain(answer.text).text


def test_a_search_is_text(client: TestClient) -> None:
    for text in NASTY:
        ensure_plain(client.get("/ui", params={"q": text, "state": text, "sort": text}).text)


def test_a_trace_that_is_no_text_is_shown(worker: FakeWorker, client: TestClient) -> None:
    worker.connectors["file"].trace = "No such file: \udcff"
    assert "No such file: \\udcff" in client.get("/ui/connectors/file").text


def test_a_page_forbids_every_script_but_its_own(client: TestClient) -> None:
    policy = client.get("/ui").headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
