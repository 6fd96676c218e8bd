"""Requests that pages show exist in the REST API, and what they send is checked as other configs are."""

import re
from types import SimpleNamespace
from typing import Any

from page import PAGES, blocks
from starlette.routing import Match

from fencepost.rest.app import create_app

_REQUEST = re.compile(r"(?:^|[ `])curl ([^\n`]*)", re.MULTILINE)
_PATH = re.compile(r"(?:localhost|127\.0\.0\.1|OLD):8083(/[^\s'?`]*)")
_METHOD = re.compile(r"-X ([A-Z]+)")


def _requests() -> list[tuple[str, str, str]]:
    """Return the page, the method and the path of each request."""
    found = []
    for page in PAGES:
        for line in _REQUEST.findall(page.read_text()):
            path, method = _PATH.search(line), _METHOD.search(line)
            if path is not None:
                found.append((page.name, method[1] if method else "GET", path[1]))
    return found


def test_requests_of_the_pages_exist() -> None:
    nobody: Any = SimpleNamespace(local=None)
    routes = create_app(nobody, version="any").state.routes
    requests = _requests()
    assert len(requests) > 20
    for page, method, path in requests:
        scope = {"type": "http", "method": method, "path": path, "headers": [], "root_path": ""}
        assert any(route.matches(scope)[0] is Match.FULL for route in routes), (page, method, path)


def test_bodies_have_the_form_that_the_test_of_configs_finds() -> None:
    shell = [block.text for block in blocks("bash")]
    assert sum(text.count(" -d ") for text in shell) == sum(text.count(" -d '\n") for text in shell)
