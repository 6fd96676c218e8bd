import pytest
from starlette.testclient import TestClient

from fencepost.rest import create_app
from fencepost.rest.app import RestOptions
from fencepost.rest.response import HeaderRule, parse_header_rules

from .fake import FakeWorker


def _client(options: RestOptions) -> TestClient:
    return TestClient(create_app(FakeWorker().operations, options=options, now_s=lambda: 0.0))


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("", ()),
        ("set X-Frame-Options: DENY", (HeaderRule("set", "X-Frame-Options", "DENY"),)),
        (
            'add Cache-Control: no-cache,  "set Pragma: a, b", setDate Expires:1000',
            (
                HeaderRule("add", "Cache-Control", "no-cache"),
                HeaderRule("set", "Pragma", "a, b"),
                HeaderRule("setDate", "Expires", "1000"),
            ),
        ),
    ],
)
def test_header_rules_are_read(text: str, rules: tuple[HeaderRule, ...]) -> None:
    assert parse_header_rules(text) == rules


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("X-Frame-Options: DENY", "is not of the form"),
        ("set X-Frame-Options DENY", "is not of the form"),
        ("set X: a, b", "is not of the form"),
        ("put X: a", "has action 'put'; give one of set, add, setDate, addDate"),
        ("setDate Expires: tomorrow", "needs milliseconds from now, not 'tomorrow'"),
        ("set X: a\x07b", "contains characters"),
    ],
)
def test_a_wrong_header_rule_is_named(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match="header rule") as caught:
        parse_header_rules(text)
    assert problem in str(caught.value)


def test_every_answer_has_the_headers_of_the_rules() -> None:
    rules = parse_header_rules('"set X-Frame-Options: DENY", add Vary: A, add Vary: B, setDate Expires: 1000')
    client = _client(RestOptions(header_rules=rules))
    for path in ("/", "/nonsense"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers.get_list("vary") == ["A", "B"]
        assert headers["expires"] == "Thu, 01 Jan 1970 00:00:01 GMT"


@pytest.mark.parametrize(
    ("allowed", "origin", "is_allowed"),
    [
        ("*", "http://a.example", True),
        ("http://a.example,http://b.example", "http://b.example", True),
        ("http://*.example", "http://x.example", True),
        ("http://a.example", "http://aXexample", False),
        ("http://a.example", "http://a.example.evil", False),
        ("", "http://a.example", False),
    ],
)
def test_other_origins_may_ask_as_configured(allowed: str, origin: str, is_allowed: bool) -> None:
    answer = _client(RestOptions(allow_origin=allowed)).get("/", headers={"origin": origin})
    assert answer.status_code == 200
    assert ("access-control-allow-origin" in answer.headers) is is_allowed


@pytest.mark.parametrize(("methods", "method", "status"), [("", "PUT", 400), ("", "POST", 200), ("PUT", "PUT", 200)])
def test_preflight_allows_the_configured_methods(methods: str, method: str, status: int) -> None:
    client = _client(RestOptions(allow_origin="*", allow_methods=methods))
    headers = {"origin": "http://a.example", "access-control-request-method": method}
    assert client.options("/connectors", headers=headers).status_code == status


def test_a_page_of_an_allowed_origin_may_send_credentials() -> None:
    client = _client(RestOptions(allow_origin="http://a.example", allow_methods="GET"))
    headers = {"access-control-request-method": "GET", "access-control-request-headers": "authorization"}
    assert client.options("/connectors", headers={**headers, "origin": "http://a.example"}).status_code == 200
    assert client.options("/connectors", headers={**headers, "origin": "http://b.example"}).status_code == 400
