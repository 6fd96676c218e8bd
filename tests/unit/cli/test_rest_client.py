import base64
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from fencepost.cli.cluster.mirror_status import of_workers
from fencepost.cli.connect import CACERT, CERT, TOKEN, URL, USER, Access, Connect, access, ensure_allowed, rest_client
from fencepost.cli.connector.dead_letters import connector_at
from fencepost.cli.context import Context, Contexts
from fencepost.config import ConfigError
from support.certificate import server_certificate
from support.http_answers import Answer, Asked, HttpAnswers

SECRETS = {"SECRET": "s3cret"}
FOUND = {"name": "c", "config": {"a": "b"}, "tasks": [], "type": "sink"}


def worker(asked: Asked) -> Answer:
    """A worker that knows alice and one token, as Kafka Connect's extension does: with a 401 that is plain text."""
    known = {f"Basic {base64.b64encode(b'alice:s3:cret').decode()}", "Bearer good"}
    if asked.headers.get("authorization") not in known:
        return Answer("User cannot access the resource.", 401, {"content-type": "text/plain"})
    return Answer({"kafka_cluster_id": "k"} if asked.path == "/" else FOUND)


def test_rest_client_takes_credentials_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with HttpAnswers(worker) as served:
        for variable, value in ((USER, "alice:s3:cret"), (TOKEN, "good")):
            with monkeypatch.context() as patch:
                patch.setenv(variable, value)
                assert connector_at(Connect(access(served.url)), "c").config == {"a": "b"}


@pytest.mark.parametrize(
    "ask", [lambda url: connector_at(Connect(access(url)), "c"), lambda url: list(of_workers(url))]
)
def test_unauthenticated_request_error_names_the_user_variable(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[str], object]
) -> None:
    monkeypatch.setenv(USER, "alice:wrong")
    with HttpAnswers(worker) as served, pytest.raises(ConfigError, match=f"set {USER}=NAME:PASSWORD") as caught:
        ask(served.url)
    assert "no worker answers" not in str(caught.value)
    assert "wrong" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://alice:s3:c@ret@w:8083", "alice:s3cret@w:8083", "https://alice@w:8083"])
def test_worker_address_is_printed_without_its_password(url: str) -> None:
    for found in (access(url, environment={}), access(environment={URL: url})):
        assert found.url == url
        assert found.named.endswith("w:8083")
        assert not [part for part in ("alice", "s3", "ret", "@") if part in found.named]


def test_forbidden_request_error_names_the_missing_role() -> None:
    answer = httpx.Response(403, json={"error_code": 403, "message": "bob needs the role view for connector c"})
    with pytest.raises(ConfigError, match="bob needs the role view"):
        ensure_allowed(Access("http://w"), answer)


def test_workers_certificate_is_verified_with_the_given_authority(tmp_path: Path) -> None:
    authority, context = server_certificate(tmp_path, "127.0.0.1")
    with HttpAnswers(lambda _: Answer({}), context) as served:
        with rest_client(access(served.url, environment={CACERT: str(authority)}), 60) as rest:
            assert rest.get("/").json() == {}
        with rest_client(access(served.url, environment={}), 60) as rest, pytest.raises(httpx.ConnectError):
            rest.get("/")


@pytest.mark.parametrize("variable", [CACERT, CERT])
def test_unusable_certificate_file_is_named_with_its_variable(tmp_path: Path, variable: str) -> None:
    (tmp_path / "x.pem").write_text("nonsense")
    for path in (tmp_path / "x.pem", tmp_path / "absent"):
        with pytest.raises(ConfigError, match=variable):
            rest_client(access("https://w", environment={variable: str(path)}), 1)


@pytest.fixture
def contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Returns what stores contexts by name, none of which is the current one."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def store(current: str | None = None, **by_name: Context) -> None:
        Contexts(by_name, current).save()

    return store


PROD = Context("https://w:8443", user="alice", password_from="env:SECRET", cacert="/ca.pem")


@pytest.mark.parametrize(
    "of", [lambda url: access(url, environment=SECRETS), lambda url: access(None, None, {**SECRETS, URL: url})]
)
def test_address_of_a_context_uses_the_contexts_authority_and_user(
    contexts: Callable[..., None], of: Callable[[str], Access]
) -> None:
    contexts(prod=PROD, other=Context("https://v:8443"))
    found = of("https://w:8443/")
    assert (found.url, found.user, found.password) == ("https://w:8443/", "alice", "s3cret")
    assert found.cacert is not None
    assert found.cacert.path == "/ca.pem"
    assert "context" not in found.named
    assert of("https://elsewhere").cacert is None


def test_user_of_the_environment_overrides_the_user_of_a_matching_context(contexts: Callable[..., None]) -> None:
    contexts(prod=PROD)
    found = access("https://w:8443", environment={USER: "bob:x"})
    assert (found.user, found.password, found.cacert and found.cacert.path) == ("bob", "x", "/ca.pem")


def test_address_of_two_contexts_uses_only_the_current_one(contexts: Callable[..., None]) -> None:
    other = replace(PROD, user="carol")
    contexts(prod=PROD, other=other)
    assert access("https://w:8443", environment=SECRETS).user is None
    contexts(prod=PROD, other=other, current="other")
    assert access("https://w:8443", environment=SECRETS).user == "carol"


def test_untrusted_certificate_is_not_reported_as_an_unreachable_worker(tmp_path: Path) -> None:
    authority, context = server_certificate(tmp_path, "127.0.0.1")
    with HttpAnswers(lambda _: Answer({}), context) as served:
        with Connect(access(served.url, environment={})) as connect, pytest.raises(ConfigError) as caught:
            connect.get("connectors")
        text = str(caught.value)
        assert "its certificate is not trusted (" in text
        assert text.endswith("name its authority with FENCEPOST_REST_CACERT, or use --context")
        assert "no worker answers" not in text
        elsewhere = served.url.replace("127.0.0.1", "localhost")
        with Connect(access(elsewhere, environment={CACERT: str(authority)})) as connect:
            with pytest.raises(ConfigError, match=r"its certificate is refused: .*localhost"):
                connect.get("connectors")
