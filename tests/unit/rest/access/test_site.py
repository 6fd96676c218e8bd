"""A browser changes nothing for a page of another site; it may for one of `access.control.allow.origin`."""

import re

import pytest
from starlette.datastructures import Headers
from starlette.testclient import TestClient

from fencepost.rest import create_app
from fencepost.rest.access.access import UNPROTECTED, Access
from fencepost.rest.access.origin import is_of_own_site
from fencepost.rest.app import RestOptions
from rest.fake import FakeWorker
from rest.test_need import BODIES, PARTS, Anybody, reset, rows

AT = "worker.example:8083"
OWN = [
    {},
    {"sec-fetch-site": "same-origin", "origin": f"http://{AT}"},
    {"sec-fetch-site": "none"},
    {"origin": f"http://{AT}"},
    {"origin": f"https://{AT.upper()}"},  # TLS ends at a proxy
    {"origin": "https://proxy.example", "x-forwarded-host": "proxy.example"},
    {"origin": "https://proxy.example", "x-forwarded-host": "proxy.example, inner.example"},
    {"origin": "https://proxy.example", "sec-fetch-site": "same-origin"},  # the proxy has another name here
]
FOREIGN = [
    {"sec-fetch-site": "cross-site", "origin": "https://evil.example"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site", "origin": "http://worker.example:3000"},
    {"sec-fetch-site": "cross-site", "origin": f"http://{AT}"},
    {"origin": "https://evil.example"},
    {"origin": "http://worker.example"},
    {"origin": f"http://evil.example@{AT}"},
    {"origin": "null"},
    {"origin": ""},
    {"origin": "http://["},
    {"origin": "https://evil.example", "x-forwarded-host": "proxy.example"},
]


@pytest.mark.parametrize(("headers", "is_own"), [*((h, True) for h in OWN), *((h, False) for h in FOREIGN)])
def test_requests_from_pages_of_other_sites_are_recognised(headers: dict[str, str], is_own: bool) -> None:
    assert is_of_own_site(Headers({"host": AT, **headers})) is is_own


def client_of(worker: FakeWorker, allowed: str = "", access: Access = UNPROTECTED) -> TestClient:
    options = RestOptions(access=access, allow_origin=allowed)
    return TestClient(create_app(worker.operations, options=options), base_url=f"http://{AT}")


@pytest.mark.parametrize("headers", [FOREIGN[0], FOREIGN[2], {"origin": "null"}])
def test_no_page_of_another_site_makes_a_browser_change_anything(worker: FakeWorker, headers: dict[str, str]) -> None:
    client = client_of(worker)
    for request, _, _ in rows():
        method, path = request.split()
        if method == "GET":
            continue
        reset(worker, request)
        path = re.sub(r"\{(\w+)\}", lambda found: PARTS[found[1]], path)
        answer = client.request(method, path, headers=headers, json=BODIES.get(request))
        assert answer.status_code == 403, request
        assert worker.calls == [], request
        assert client.request(method, path, json=BODIES.get(request)).status_code != 403 or "/ui/" in path, request
    assert client.get("/connectors", headers=headers).status_code == 200


def test_credentials_that_a_browser_adds_do_not_help_another_site(worker: FakeWorker) -> None:
    client = client_of(worker, access=Access({"name": Anybody()}))
    answer = client.post("/connectors/file/restart", headers={**FOREIGN[0], "authorization": "Name alice"})
    assert answer.status_code == 403
    assert "access.control.allow.origin" in answer.json()["message"]
    assert worker.calls == []


@pytest.mark.parametrize(
    ("allowed", "origin", "status"),
    [
        ("https://ui.example", "https://ui.example", 202),
        ("https://a.example, https://ui.example", "https://ui.example", 202),
        ("https://*.example", "https://ui.example", 202),
        ("*", "https://ui.example", 202),
        ("https://ui.example", "https://evil.example", 403),
        ("https://ui.example", "https://ui.example.evil.example", 403),
        ("https://ui.example", "null", 403),
    ],
)
def test_only_pages_of_allowed_origins_may_make_changes(
    worker: FakeWorker, allowed: str, origin: str, status: int
) -> None:
    headers = {"sec-fetch-site": "cross-site", "origin": origin}
    found = client_of(worker, allowed).post("/connectors/file/restart?includeTasks=true", headers=headers)
    assert found.status_code == status
