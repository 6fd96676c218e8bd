import base64
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from fencepost.cli.connect import Connect
from fencepost.cli.dead_letters.connector import connector_at
from fencepost.cli.mirror.status import of_workers
from fencepost.cli.rest import CACERT, CERT, TOKEN, URL, USER, Access, access, ensure_allowed, rest_client
from fencepost.config import ConfigError
from support.certificate import server_certificate
from support.http_answers import Answer, Asked, HttpAnswers

FOUND = {"name": "c", "config": {"a": "b"}, "tasks": [], "type": "sink"}


def worker(asked: Asked) -> Answer:
    """A worker that knows alice and one token, as Kafka Connect's extension does: with a 401 that is plain text."""
    known = {f"Basic {base64.b64encode(b'alice:s3:cret').decode()}", "Bearer good"}
    if asked.headers.get("authorization") not in known:
        return Answer("User cannot access the resource.", 401, {"content-type": "text/plain"})
    return Answer({"kafka_cluster_id": "k"} if asked.path == "/" else FOUND)


def test_credentials_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with HttpAnswers(worker) as served:
        for variable, value in ((USER, "alice:s3:cret"), (TOKEN, "good")):
            with monkeypatch.context() as patch:
                patch.setenv(variable, value)
                assert connector_at(Connect(access(served.url)), "c").config == {"a": "b"}


@pytest.mark.parametrize(
    "ask", [lambda url: connector_at(Connect(access(url)), "c"), lambda url: list(of_workers(url))]
)
def test_who_is_not_known_is_told_how_to_say_who_it_is(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[str], object]
) -> None:
    monkeypatch.setenv(USER, "alice:wrong")
    with HttpAnswers(worker) as served, pytest.raises(ConfigError, match=f"set {USER}=NAME:PASSWORD") as caught:
        ask(served.url)
    assert "no worker answers" not in str(caught.value)
    assert "wrong" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://alice:s3:c@ret@w:8083", "alice:s3cret@w:8083", "https://alice@w:8083"])
def test_an_address_is_named_without_the_password_in_it(url: str) -> None:
    for found in (access(url, environment={}), access(environment={URL: url})):
        assert found.url == url
        assert found.named.endswith("w:8083")
        assert not [part for part in ("alice", "s3", "ret", "@") if part in found.named]


def test_a_role_that_is_missing_is_named() -> None:
    answer = httpx.Response(403, json={"error_code": 403, "message": "bob needs the role view for connector c"})
    with pytest.raises(ConfigError, match="bob needs the role view"):
        ensure_allowed(Access("http://w"), answer)


def test_the_authority_of_the_workers(tmp_path: Path) -> None:
    authority, context = server_certificate(tmp_path, "127.0.0.1")
    with HttpAnswers(lambda _: Answer({}), context) as served:
        with rest_client(access(served.url, environment={CACERT: str(authority)}), 60) as rest:
            assert rest.get("/").json() == {}
        with rest_client(access(served.url, environment={}), 60) as rest, pytest.raises(httpx.ConnectError):
            rest.get("/")


@pytest.mark.parametrize("variable", [CACERT, CERT])
def test_a_file_that_cannot_be_used_is_named_with_its_variable(tmp_path: Path, variable: str) -> None:
    (tmp_path / "x.pem").write_text("nonsense")
    for path in (tmp_path / "x.pem", tmp_path / "absent"):
        with pytest.raises(ConfigError, match=variable):
            rest_client(access("https://w", environment={variable: str(path)}), 1)
