"""Contexts: a file of one's own without secrets, and which cluster a command asks."""

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.cli.connect import DEFAULT_URL, TOKEN, URL, USER, access
from fencepost.cli.context import Context, Contexts, contexts_file
from fencepost.config import ConfigError
from support.command_line import Ran, fencepost

Run = Callable[..., Ran]


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for variable in (URL, USER, TOKEN, "FENCEPOST_CONTEXT"):
        monkeypatch.delenv(variable, raising=False)


def test_contexts_are_added_used_listed_and_removed() -> None:
    assert "used from now on" in fencepost("context", "add", "dev", "--url", "http://dev:8083").out
    fencepost("context", "add", "prod", "--url", "https://prod", "--user", "alice", "--password-from", "env:PROD")
    assert json.loads(fencepost("context", "list", "-o", "json").out) == [
        {"name": "dev", "current": True, "url": "http://dev:8083"},
        {"name": "prod", "current": False, "url": "https://prod", "user": "alice", "password_from": "env:PROD"},
    ]
    assert fencepost("context", "use", "prod").code == 0
    assert [line.split() for line in fencepost("context", "list").out.splitlines()[1:]] == [
        ["dev", "http://dev:8083"],
        ["*", "prod", "https://prod", "alice"],
    ]
    assert fencepost("context", "remove", "prod").code == 0
    assert Contexts.load() == Contexts({"dev": Context("http://dev:8083")})
    assert "there are: dev" in fencepost("context", "use", "prod").err


def test_contexts_file_is_readable_only_by_its_owner() -> None:
    fencepost("context", "add", "dev", "--url", "http://dev:8083")
    assert stat.S_IMODE(contexts_file().stat().st_mode) == 0o600


@pytest.mark.parametrize("option", ["--password-from", "--token-from"])
def test_context_add_refuses_a_plain_secret_without_repeating_it(option: str) -> None:
    refused = fencepost("context", "add", "p", "--url", "https://p", "--user", "a", option, "s3cr3t")
    assert refused.code == 1
    assert option in refused.err
    assert "s3cr3t" not in refused.text
    refused = fencepost("context", "add", "p", "--url", "https://a:s3cr3t@p")
    assert (refused.code, "s3cr3t" in refused.text, contexts_file().exists()) == (1, False, False)


def test_cluster_is_chosen_by_option_then_environment_then_context() -> None:
    assert access(environment={}).url == DEFAULT_URL
    fencepost("context", "add", "dev", "--url", "http://dev")
    fencepost("context", "add", "prod", "--url", "http://prod")
    assert access(environment={}).url == "http://dev"
    assert access(environment={"FENCEPOST_CONTEXT": "prod"}).url == "http://prod"
    assert access(environment={"FENCEPOST_CONTEXT": "prod", URL: "http://env"}).url == "http://env"
    assert access(context="prod", environment={URL: "http://env"}).url == "http://prod"
    assert access("http://option", environment={URL: "http://env"}).url == "http://option"
    with pytest.raises(ConfigError, match="give one of them"):
        access("http://option", "prod")


def test_password_and_token_are_read_from_the_source_the_context_names(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t0ken\n")
    fencepost("context", "add", "a", "--url", "http://a", "--user", "alice", "--password-from", "env:PW")
    fencepost("context", "add", "b", "--url", "http://b", "--token-from", f"file:{tmp_path / 'token'}")
    fencepost("context", "add", "c", "--url", "http://c", "--user", "carol")
    assert access(context="a", environment={"PW": "pw"}).password == "pw"
    assert access(context="b", environment={}).token == "t0ken"
    assert access(context="c", environment={}).asks
    with pytest.raises(ConfigError, match="PW is not set"):
        access(context="a", environment={})


def test_environment_credentials_are_not_sent_to_a_context_with_its_own() -> None:
    fencepost("context", "add", "a", "--url", "http://a", "--user", "alice", "--password-from", "env:PW")
    fencepost("context", "add", "b", "--url", "http://b")
    environment = {"PW": "pw", USER: "eve:other", TOKEN: "token"}
    assert (access(context="a", environment=environment).user, access(context="a", environment=environment).token) == (
        "alice",
        None,
    )
    assert access(context="b", environment=environment).user == "eve"


def test_malformed_contexts_file_is_named() -> None:
    contexts_file().parent.mkdir(parents=True)
    for text in ("nonsense", "[]", '{"contexts": {"a": {"url": "http://a", "pasword": "x"}}}'):
        contexts_file().write_text(text)
        with pytest.raises(ConfigError, match=r"contexts\.json"):
            Contexts.load()
