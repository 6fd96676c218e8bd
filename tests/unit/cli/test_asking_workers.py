"""How commands ask workers: what is passing is asked again, names are completed, output is safe for a terminal."""

import json
import socket
import subprocess
import sys
from typing import Any

import pytest

from fencepost.cli.connect import Access, Connect, RefusedError
from fencepost.cli.on_worker import connector_names
from fencepost.config import ConfigError
from fencepost.telemetry.plain_line import printable
from support.command_line import fencepost
from support.http_answers import Answer, Asked, HttpAnswers

NOBODY = "http://127.0.0.1:1"
"""A port that no program is given."""


def test_a_request_is_repeated_during_a_rebalance() -> None:
    answers = [Answer({"message": "rebalance"}, 409), Answer({"message": "no leader"}, 503), Answer({"done": True})]
    with HttpAnswers(lambda _: answers.pop(0)) as served:
        with Connect(Access(served.url), pause=lambda _: None) as connect:
            assert connect.put("connectors", "a/b", "config", body={}) == {"done": True}
        assert [asked.path for asked in served.asked] == ["/connectors/a%2Fb/config"] * 3


def test_request_is_repeated_during_a_rebalance_reported_with_status_500() -> None:
    """Kafka Connect answers so when a connector's config is requested."""
    text = "Request cannot be completed because a rebalance is expected"
    answers = [Answer({"error_code": 500, "message": text}, 500), Answer({"topic": "t"})]
    with HttpAnswers(lambda _: answers.pop(0)) as served:
        with Connect(Access(served.url), pause=lambda _: None) as connect:
            assert connect.get("connectors", "a", "config") == {"topic": "t"}
        assert len(served.asked) == 2


@pytest.mark.parametrize("status", [400, 404, 409, 500])
def test_permanently_refused_request_is_not_repeated(status: int) -> None:
    with HttpAnswers(lambda _: Answer({"message": "Connector c already exists"}, status)) as served:
        with Connect(Access(served.url), pause=lambda _: None) as connect, pytest.raises(RefusedError) as caught:
            connect.post("connectors", body={})
        assert (caught.value.status, str(caught.value), len(served.asked)) == (status, "Connector c already exists", 1)


def test_unreachable_worker_is_reported_with_the_context_of_the_user() -> None:
    with Connect(Access(NOBODY, "context prod (x)")) as connect, pytest.raises(ConfigError, match="context prod"):
        connect.get("connectors")


class Typing:
    """What the shell has typed so far."""

    def __init__(self, url: str) -> None:
        self.params = {"url": url, "context": None}


def completed(url: str, incomplete: str) -> list[str]:
    ctx: Any = Typing(url)
    return connector_names(ctx, incomplete)


def test_connector_names_are_completed_from_the_worker() -> None:
    with HttpAnswers(lambda _: Answer(["orders", "other", "people"])) as served:
        assert completed(served.url, "o") == ["orders", "other"]


def test_shell_completion_gives_up_quickly_and_silently(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert completed(f"http://127.0.0.1:{silent.getsockname()[1]}", "") == []
    assert completed(NOBODY, "") == []
    monkeypatch.setenv("FENCEPOST_REST_USER", "alice")  # whose password would be asked for
    with HttpAnswers(lambda _: Answer(["c"])) as served:
        assert (completed(served.url, ""), served.asked) == ([], [])
    assert capfd.readouterr() == ("", "")


def test_control_characters_in_connector_names_are_escaped() -> None:
    def hostile(asked: Asked) -> Answer:
        if "expand" not in asked.path:
            return Answer(["a\x1b[2Jb"])
        info = {"name": "a\x1b[2Jb", "type": "sink", "config": {"connector.class": "\x1b]0;x\x07"}}
        return Answer({"a\x1b[2Jb": {"info": info, "status": {"connector": {"state": "RUNNING"}, "tasks": []}}})

    with HttpAnswers(hostile) as served:
        shown = fencepost("get", "--url", served.url)
    assert "\x1b" not in shown.text
    assert "a\\x1b[2Jb" in shown.out
    assert printable("two\nlines\tö") == "two\nlines\tö"


def test_control_characters_in_worker_errors_are_escaped() -> None:
    with HttpAnswers(lambda _: Answer({"message": "no \x1b[2Jroom"}, 400)) as served:
        command = [sys.executable, "-m", "fencepost.cli.main", "get", "--url", served.url]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "no \\x1b[2Jroom\n")


def test_plugin_list_with_a_url_lists_the_workers_plugins() -> None:
    found = [{"class": "x.Y", "type": "source", "version": "1"}, {"class": "x.Z", "type": "transformation"}]
    with HttpAnswers(lambda _: Answer(found)) as served:
        listed = fencepost("plugin", "list", "--url", served.url)
        assert [line.split() for line in listed.out.splitlines()[1:]] == [
            ["source", "x.Y", "1"],
            ["transformation", "x.Z"],
        ]
        one = fencepost("plugin", "list", "--url", served.url, "--kind", "transform", "-o", "json")
        assert [each["class"] for each in json.loads(one.out)] == ["x.Z"]
        assert served.asked[0].path == "/connector-plugins?connectorsOnly=false"
