"""What users and other systems name and write is text on every page, never markup."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from fencepost.cluster.figures import ConnectorFigures, LogEvent, LogEvents, LogQuery, SlotFigures, TaskFigures
from fencepost.cluster.info import (
    ConnectorOffset,
    KeyDefinition,
    KeyReport,
    KeyValue,
    Lineage,
    LineageEnd,
    PartitionRetention,
    PluginInfo,
    RetentionInfo,
    TopicRetentionInfo,
    ValidationReport,
)
from fencepost.cluster.operations import ConnectOperations
from fencepost.cluster.topic_records import ResendProgressInfo
from fencepost.config.reference import RawConfig
from fencepost.rest import create_app
from fencepost.rest.access.need import NEEDS
from rest.fake import FakeConnector, FakeWorker, dead_letter

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
def test_names_topics_and_traces_are_escaped(worker: FakeWorker, client: TestClient, text: str) -> None:
    config: dict[str, str | None] = {"name": text, "connector.class": text, "tasks.max": "1", text: text}
    worker.connectors = {text: FakeConnector(config, topics=[text], trace=text)}
    overview = ensure_plain(client.get("/ui").text)
    assert text in overview.text
    for page in [*PAGES, f"/topics/{quote(text, safe='')}"]:
        answer = client.get(f"/ui/connectors/{quote(text, safe='')}{page}")
        assert answer.status_code == 200, page
        assert text in ensure_plain(answer.text).text, page
    for page in ("/ui/lineage", "/ui/workers", f"/ui/new?plugin={quote(text)}"):
        ensure_plain(client.get(page).text)


class HostilePlugins:
    """Plug-ins that say this text wherever they say something."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._key = KeyDefinition(text, "STRING", True, text, "HIGH", text, text, 1, text, text, (text,))

    def installed(self, *, connectors_only: bool) -> Sequence[PluginInfo]:
        return [PluginInfo(self._text, "source", self._text)]

    def kinds(self) -> Mapping[str, str]:
        return {self._text: self._text}

    def keys(self, plugin: str, version: str | None = None) -> Sequence[KeyDefinition]:
        return [self._key]

    def validate(self, plugin: str, config: RawConfig) -> ValidationReport:
        value = KeyValue(self._text, self._text, recommended_values=[self._text], errors=[self._text])
        return ValidationReport(self._text, 1, [self._text], [KeyReport(self._key, value)])


class HostileWorker(FakeWorker):
    """A worker with a connector of this name, and this text wherever others name or write something."""

    def __init__(self, text: str, state: str) -> None:
        super().__init__()
        self._text, self._state = text, state
        self.fill()

    def fill(self) -> None:
        text = self._text
        config: dict[str, str | None] = {"name": text, "connector.class": text, text: text,
                                         "errors.deadletterqueue.topic.name": text, "topics": text}  # fmt: skip
        self.connectors = {text: FakeConnector(config, self._state, topics=[text], trace=text)}
        self.offsets = {text: [ConnectorOffset({text: text}, {text: text})]}
        self.gaps = [{"topic": text, "partition": 0, "reason": text, "position": 1, "log_start": 2, "time_ms": 0}]
        self.letters = [dead_letter(text, text)]
        self.resend = ResendProgressInfo("failed", error=text)

    @property
    def operations(self) -> ConnectOperations:
        return replace(super().operations, plugins=HostilePlugins(self._text))

    def logs(self, connector: str, query: LogQuery) -> LogEvents:
        text = self._text
        return LogEvents([LogEvent(text, "ERROR", text, connector, 0, text, text, text)], text)

    def lineage(self, connectors: Collection[str]) -> Sequence[Lineage]:
        ends = [LineageEnd(kind, self._text, self._text) for kind in ("external", "topic", "pattern")]
        return [Lineage(name, self._text, ends, ends) for name in connectors]

    def figures(self, connectors: Collection[str]) -> Mapping[str, ConnectorFigures]:
        one = TaskFigures(0, self._text, "source", 1_000, 20, 19, slot=SlotFigures(self._text, 7, 1 << 20))
        return {name: ConnectorFigures([one]) for name in connectors}

    def retention(self, *, is_preview: bool) -> RetentionInfo:
        held = [PartitionRetention(0, 5, 9, 7, self._text)]
        return RetentionInfo(True, 2_000, topics=[TopicRetentionInfo(self._text, self._text, self._text, 5, 1, held)])


WITHOUT_TEXT = ("/ui/assets/{file}", "/ui/connectors/{name}/tasks/{task}/restart")


@pytest.mark.parametrize("text", NASTY)
@pytest.mark.parametrize("state", ["RUNNING", "STOPPED"])
def test_foreign_text_is_escaped_on_every_page(text: str, state: str) -> None:
    worker = HostileWorker(text, state)
    client = TestClient(create_app(worker.operations), base_url="http://localhost:8083", follow_redirects=False)
    client.get("/ui")
    token = client.cookies["fencepost-form"]
    forms = {"c.connector.class": text, f"c.{text}": text, "more": f"{text}={text}", "p.1": f'{{"a": "{text}"}}',
             "o.1": text, "p.new": text, "o.new": text, "seen": text, "token": token,
             "what": "selected", "letter.1": text}  # fmt: skip
    for request in NEEDS:
        method, path = request.split()
        if not path.startswith("/ui") or path in WITHOUT_TEXT:
            continue
        worker.fill()
        url = path.replace("{name}", quote(text, safe=""))
        asked = {"params": {"q": text, "level": text, "task": text, "plugin": text, "of": text, "seen": f"-{text}"}}
        answer = client.request(method, url, **asked, **({"data": forms} if method == "POST" else {}))
        page = ensure_plain(answer.text)
        assert method == "POST" or answer.status_code == 200, (request, answer.text)
        if answer.status_code == 200 and (state == "RUNNING" or "/workers" not in path):  # those show what runs
            assert text in page.text, request


def test_text_of_an_error_is_escaped(client: TestClient) -> None:
    answer = client.get(f"/ui/connectors/{quote(NASTY[0], safe='')}")
    assert answer.status_code == 404
    assert NASTY[0] in ensure_plain(answer.text).text


def test_search_text_is_escaped(client: TestClient) -> None:
    for text in NASTY:
        ensure_plain(client.get("/ui", params={"q": text, "state": text, "sort": text}).text)


def test_trace_with_a_lone_surrogate_is_shown(worker: FakeWorker, client: TestClient) -> None:
    worker.connectors["file"].trace = "No such file: \udcff"
    assert "No such file: \\udcff" in client.get("/ui/connectors/file").text


def test_a_page_forbids_every_script_but_its_own(client: TestClient) -> None:
    policy = client.get("/ui").headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
