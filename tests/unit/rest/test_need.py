"""Every path of the API times every role: the table of what each may do, walked against the real application."""

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from fencepost.rest import create_app
from fencepost.rest.access.access import Access
from fencepost.rest.access.need import NEEDS
from fencepost.rest.access.principal import Checked, Grant, Principal, Role, Rules
from fencepost.rest.app import RestOptions
from fencepost.rest.resources import guide
from fencepost.rest.ui.offset import Offsets

from .fake import FakeConnector, FakeWorker

# The lowest role with which each request is answered: for the connector `file`, for `*`, or, with -, for none at all.
# `signed` is for workers alone.
TABLE = """
GET    /                                            -
GET    /health                                      -
GET    /kafka                                       -
GET    /metrics                                     view     *
GET    /openapi.json                                -
GET    /docs                                        -
GET    /docs/guide                                  -
GET    /docs/guide/{file:path}                      -
GET    /connectors                                  -
POST   /connectors                                  edit     file
GET    /connectors/{name}                           view     file
DELETE /connectors/{name}                           edit     file
GET    /connectors/{name}/config                    view     file
PUT    /connectors/{name}/config                    edit     file
PATCH  /connectors/{name}/config                    edit     file
GET    /connectors/{name}/status                    view     file
PUT    /connectors/{name}/pause                     operate  file
PUT    /connectors/{name}/resume                    operate  file
PUT    /connectors/{name}/stop                      operate  file
POST   /connectors/{name}/restart                   operate  file
GET    /connectors/{name}/tasks                     view     file
GET    /connectors/{name}/tasks/{task}/status       view     file
POST   /connectors/{name}/tasks/{task}/restart      operate  file
GET    /connectors/{name}/topics                    view     file
PUT    /connectors/{name}/topics/reset              operate  file
GET    /connectors/{name}/offsets                   view     file
GET    /connectors/{name}/gaps                      view     file
GET    /connectors/{name}/dead-letters              operate  file
GET    /connectors/{name}/dead-letters/resend       operate  file
POST   /connectors/{name}/dead-letters/resend       edit     file
GET    /connectors/{name}/figures                   view     file
GET    /connectors/{name}/logs                      operate  file
GET    /connectors/{name}/lineage                   view     file
GET    /lineage                                     -
GET    /connectors/{name}/topics/{topic}/records    operate  file
GET    /topics                                      edit     *
GET    /topics/{topic}/records                      edit     *
PATCH  /connectors/{name}/offsets                   edit     file
DELETE /connectors/{name}/offsets                   edit     file
POST   /connectors/{name}/tasks                     signed
PUT    /connectors/{name}/fence                     signed
GET    /internal/figures                            signed
GET    /internal/past                               signed
GET    /internal/logs                               signed
GET    /connector-plugins                           -
GET    /connector-plugins/{plugin}/config           view     some
PUT    /connector-plugins/{plugin}/config/validate  edit     some
GET    /retention                                   view     *
GET    /retention/{topic}                           view     *
GET    /ui                                          -
GET    /ui/rows                                     -
GET    /ui/assets/{file}                            -
GET    /ui/connectors/{name}                        view     file
GET    /ui/connectors/{name}/live                   view     file
POST   /ui/connectors/{name}/pause                  operate  file
POST   /ui/connectors/{name}/resume                 operate  file
POST   /ui/connectors/{name}/stop                   operate  file
POST   /ui/connectors/{name}/restart                operate  file
POST   /ui/connectors/{name}/tasks/{task}/restart   operate  file
GET    /ui/connectors/{name}/delete                 edit     file
POST   /ui/connectors/{name}/delete                 edit     file
GET    /ui/connectors/{name}/config                 view     file
GET    /ui/connectors/{name}/edit                   edit     file
POST   /ui/connectors/{name}/edit                   edit     file
POST   /ui/connectors/{name}/edit/check             edit     file
GET    /ui/connectors/{name}/topics/{topic}         operate  file
GET    /ui/connectors/{name}/offsets                view     file
POST   /ui/connectors/{name}/offsets/preview        edit     file
POST   /ui/connectors/{name}/offsets                edit     file
GET    /ui/connectors/{name}/logs                   operate  file
GET    /ui/connectors/{name}/logs/rows              operate  file
GET    /ui/connectors/{name}/dead-letters           view     file
GET    /ui/connectors/{name}/dead-letters/progress  operate  file
POST   /ui/connectors/{name}/dead-letters/confirm   edit     file
POST   /ui/connectors/{name}/dead-letters/resend    edit     file
GET    /ui/new                                      edit     some
POST   /ui/new                                      edit     file
POST   /ui/new/check                                edit     some
GET    /ui/lineage                                  -
GET    /ui/workers                                  -
GET    /ui/workers/rows                             -
GET    /ui/retention                                view     *
GET    /admin/loggers                               admin    *
GET    /admin/loggers/{logger}                      admin    *
PUT    /admin/loggers/{logger}                      admin    *
"""
CONFIG = {"connector.class": "FileStreamSource", "file": "/f"}
BODIES: dict[str, Any] = {
    "POST /connectors": {"name": "file", "config": CONFIG},
    "PUT /connectors/{name}/config": CONFIG,
    "PATCH /connectors/{name}/config": {"file": "/g"},
    "PATCH /connectors/{name}/offsets": {"offsets": [{"partition": {"a": 1}, "offset": None}]},
    "POST /connectors/{name}/tasks": [{}],
    "PUT /connector-plugins/{plugin}/config/validate": CONFIG,
    "PUT /admin/loggers/{logger}": {"level": "INFO"},
}
TOKEN = "t" * 43
FORMS = {
    "POST /ui/connectors/{name}/dead-letters/confirm": {"what": "all"},
    "POST /ui/connectors/{name}/dead-letters/resend": {"what": "all"},
    "POST /ui/connectors/{name}/edit": {"c.connector.class": "FileStreamSource", "c.file": "/g"},
    "POST /ui/connectors/{name}/edit/check": {"c.connector.class": "FileStreamSource"},
    "POST /ui/connectors/{name}/offsets/preview": {"p.1": '{"a": 1}', "o.1": '{"b": 2}'},
    "POST /ui/connectors/{name}/offsets": {"p.1": '{"a": 1}', "o.1": '{"b": 2}', "seen": Offsets({}).seen},
    "POST /ui/new": {"c.name": "file", "c.connector.class": "FileStreamSource", "c.file": "/f"},
    "POST /ui/new/check": {"c.connector.class": "FileStreamSource"},
}
PARTS = {
    "name": "file",
    "task": "0",
    "plugin": "FileStreamSource",
    "topic": "t",
    "file": "icon.svg",
    "logger": "fencepost.x",
}
ROLES = ("none", "view", "operate", "edit", "admin")
GRANTS = [("none", ""), *((role, where) for role in ROLES[1:] for where in ("file", "f*", "*", "other"))]


def rows() -> list[tuple[str, str, str]]:
    found = (line.split() for line in TABLE.strip().splitlines())
    return [(f"{method} {path}", needed[0], needed[1] if needed[1:] else "") for method, path, *needed in found]


class Anybody:
    """Takes every bearer for who it says it is."""

    scheme, challenge = "name", "Name"

    def guessed_name(self, credentials: str) -> str | None:
        return credentials.partition(":")[0]

    def authenticate(self, credentials: str) -> Checked | None:
        return Checked(Principal(credentials), float("inf"))


def rules_of(role: str, pattern: str) -> Rules:
    return Rules(()) if role == "none" else Rules((Grant("user:alice", Role[role.upper()], pattern),))


def client_of(worker: FakeWorker, rules: Rules) -> TestClient:
    access = Access({"name": Anybody()}, rules=lambda: rules)
    headers = {"authorization": "Name alice"}
    cookies = {"fencepost-form": TOKEN}
    return TestClient(
        create_app(worker.operations, options=RestOptions(access=access)), headers=headers, cookies=cookies
    )


def reset(worker: FakeWorker, request: str = "") -> None:
    """Give the worker its one connector, unless the request is to create it."""
    worker.calls.clear()
    has_connector = request not in ("POST /connectors", "POST /ui/new")
    worker.connectors = {"file": FakeConnector({**CONFIG, "name": "file"})} if has_connector else {}


def expected(needed: str, where: str, role: str, pattern: str) -> bool:
    if needed in ("-", "signed"):
        return needed == "-"
    if ROLES.index(role) < ROLES.index(needed):
        return False
    return {"file": pattern in ("file", "f*", "*"), "*": pattern == "*", "some": True}[where]


def send(client: TestClient, request: str) -> int:
    return respond(client, request).status_code


def respond(client: TestClient, request: str) -> httpx.Response:
    method, path = request.split()
    body = BODIES.get(request)
    sent: dict[str, Any] = {"json": body} if body is not None else {}
    if request.startswith("POST /ui"):
        sent = {"data": {"token": TOKEN, **FORMS.get(request, {})}, "follow_redirects": False}
    return client.request(method, re.sub(r"\{(\w+)(?::path)?\}", lambda found: PARTS[found[1]], path), **sent)


def test_the_table_has_each_path_of_the_application() -> None:
    app = create_app(FakeWorker().operations)
    served = {f"{method} {route.path}" for route in app.state.routes for method in route.methods}
    assert served == {request for request, _, _ in rows()} == set(NEEDS)
    assert [route for route in app.routes if hasattr(route, "path")] == []  # nothing past the routers: it had no roles


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages of the guide, which a clone has only when they were built."""
    for name in ("index.html", PARTS["file"]):
        (tmp_path / name).touch()
    monkeypatch.setattr(guide, "SITE", tmp_path)


@pytest.fixture
def worker() -> FakeWorker:
    fake = FakeWorker()
    reset(fake)
    return fake


@pytest.mark.parametrize(("role", "pattern"), GRANTS)
def test_every_path_allows_exactly_the_roles_of_the_table(worker: FakeWorker, role: str, pattern: str) -> None:
    client = client_of(worker, rules_of(role, pattern))
    for request, needed, where in rows():
        reset(worker, request)
        status = send(client, request)
        refused = 400 if needed == "signed" else 403  # a signature is missing
        if expected(needed, where, role, pattern):
            assert (
                status < 300
                or (status == 303 and request.startswith("POST /ui"))
                or (request.startswith("GET /admin/loggers/") and status == 404)
            ), request
        else:
            assert status == refused, request
            assert worker.calls == [], request


def test_every_path_needs_credentials(worker: FakeWorker) -> None:
    client = client_of(worker, rules_of("admin", "*"))
    del client.headers["authorization"]
    for request, needed, _ in rows():
        assert send(client, request) == (400 if needed == "signed" else 401), request
    assert worker.calls == []
    assert worker.connectors["file"].state == "RUNNING"


def test_without_access_every_path_is_for_everybody(worker: FakeWorker) -> None:
    client = TestClient(create_app(worker.operations), cookies={"fencepost-form": TOKEN})
    for request, _, _ in rows():
        reset(worker, request)
        assert send(client, request) not in (401, 403), request


def test_lists_have_only_connectors_that_the_caller_may_view(worker: FakeWorker) -> None:
    worker.connectors["other"] = FakeConnector({**CONFIG, "name": "other"})
    client = client_of(worker, rules_of("view", "f*"))
    assert client.get("/connectors").json() == ["file"]
    for expand in ("status", "info", "figures", "nonsense"):
        assert list(client.get("/connectors", params={"expand": expand}).json()) == ["file"]
    assert [one["name"] for one in client.get("/lineage").json()] == ["file"]
    assert client_of(worker, rules_of("none", "")).get("/connectors").json() == []
    assert client_of(worker, rules_of("none", "")).get("/lineage").json() == []


def test_an_answer_does_not_say_whether_a_hidden_connector_exists(worker: FakeWorker) -> None:
    worker.connectors["hidden"] = FakeConnector({**CONFIG, "name": "hidden"})
    client = client_of(worker, rules_of("edit", "f*"))
    for method, path in (
        ("GET", ""),
        ("GET", "/status"),
        ("PUT", "/pause"),
        ("DELETE", ""),
        ("GET", "/offsets"),
        ("GET", "/figures"),
    ):
        answers = [client.request(method, f"/connectors/{name}{path}") for name in ("hidden", "absent")]
        assert answers[0].text.replace("hidden", "absent") == answers[1].text
        assert {answer.status_code for answer in answers} == {403}
    made = [client.post("/connectors", json={"name": n, "config": CONFIG}) for n in ("hidden", "absent")]
    assert made[0].text.replace("hidden", "absent") == made[1].text


@pytest.mark.parametrize(
    "path", ["/connectors/other", "/connectors/fil%65/../other", "/connectors//other", "/connectors/%6fther/"]
)
def test_other_spellings_of_a_path_do_not_bypass_a_role(worker: FakeWorker, path: str) -> None:
    worker.connectors["other"] = FakeConnector({**CONFIG, "name": "other"})
    for method, end in (("GET", ""), ("DELETE", ""), ("PUT", "/stop"), ("HEAD", "")):
        assert client_of(worker, rules_of("admin", "file")).request(method, path + end).status_code in (403, 404, 405)
    assert worker.connectors["other"].state == "RUNNING"


def test_a_name_that_is_encoded_is_compared_decoded(worker: FakeWorker) -> None:
    worker.connectors["a/b"] = FakeConnector({**CONFIG, "name": "a/b"})
    assert client_of(worker, rules_of("view", "a/b")).get("/connectors/a%2Fb").status_code == 200
    assert client_of(worker, rules_of("view", "a%2Fb")).get("/connectors/a%2Fb").status_code == 403


class TestEditorOfOrdersAgainstPayments:
    """An editor of `orders-*` asks every route for `payments`, which is another team's."""

    @pytest.fixture
    def worker(self) -> FakeWorker:
        fake = FakeWorker()
        fake.connectors["payments"] = FakeConnector({**CONFIG, "name": "payments", "topic": "of-payments"})
        return fake

    @pytest.mark.parametrize("request_", [row[0] for row in rows()])
    def test_route_is_refused_for_a_connector_outside_the_callers_pattern(
        self, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch, request_: str
    ) -> None:
        monkeypatch.setitem(PARTS, "name", "payments")
        monkeypatch.setitem(BODIES, "POST /connectors", {"name": "payments", "config": CONFIG})
        monkeypatch.setitem(FORMS, "POST /ui/new", {**FORMS["POST /ui/new"], "c.name": "payments"})
        before = dict(worker.connectors["payments"].config)
        client = client_of(worker, Rules((Grant("user:alice", Role.EDIT, "orders-*"),)))
        answer = respond(client, request_)
        needed, where = next((needed, where) for each, needed, where in rows() if each == request_)
        if needed != "-" and where != "some":
            assert answer.status_code == (400 if needed == "signed" else 403)
        elif not request_.endswith("/openapi.json"):
            assert "of-payments" not in answer.text
        assert dict(worker.connectors["payments"].config) == before
        assert set(worker.connectors) == {"payments"}
        assert worker.calls == []
