"""Questions before a change name the cluster."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.command_line import fencepost
from support.http_answers import Answer, Asked, HttpAnswers

CONFIG = {"connector.class": "X", "topic": "t"}
OFFSETS = {"offsets": [{"partition": {"file": "a"}, "offset": {"line": 1}}]}


def two_connectors(asked: Asked) -> Answer:
    """Workers with the connectors `kept` and `c`."""

    def view(name: str) -> dict[str, Any]:
        status = {"name": name, "connector": {"state": "RUNNING"}, "tasks": [], "type": "source"}
        return {"info": {"name": name, "config": CONFIG, "tasks": [], "type": "source"}, "status": status}

    path, _, query = asked.path.partition("?")
    if path == "/connectors/c/figures":  # as Kafka Connect
        return Answer({"message": "HTTP 404 Not Found"}, 404)
    return Answer(
        {
            "/connectors": {name: view(name) for name in ("kept", "c")} if query else ["kept", "c"],
            "/connectors/c": view("c")["info"],
            "/connectors/c/status": view("c")["status"],
            "/connectors/c/offsets": OFFSETS,
        }[path]
    )


@pytest.mark.parametrize(
    "command",
    [("delete", "c"), ("offsets", "reset", "c"), ("offsets", "move", "c", '{"partition": {}, "offset": null}'),
     ("apply", "FILE", "--prune", "*")],
    ids=" ".join,
)  # fmt: skip
def test_question_before_a_change_names_the_context_and_url(command: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    file.write_text(json.dumps({"name": "kept", "config": CONFIG}))
    with HttpAnswers(two_connectors) as served:
        home = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
        fencepost("context", "add", "prod", "--url", served.url, **home)
        words = [file if word == "FILE" else word for word in command]
        asked = fencepost(*words, "--context", "prod", typed="n\n", **home)
        assert {each.method for each in served.asked} == {"GET"}
    assert asked.code == 1
    [question] = [line for line in asked.err.splitlines() if "[y/N]" in line]
    assert question.startswith(f"context prod ({served.url}): ")
