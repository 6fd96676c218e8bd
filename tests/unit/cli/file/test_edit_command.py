"""`fencepost edit`: what an editor leaves is validated, shown and stored; secrets stay as they are."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from support.command_line import Ran, fencepost
from support.http_answers import Answer, Asked, HttpAnswers

CONFIG = {"connector.class": "X", "topic": "t", "db.password": "[hidden]"}


class Worker:
    """Answers for one connector; `errors` are what validation says of its topic."""

    def __init__(self, errors: list[str]) -> None:
        self.errors = errors
        self.stored: list[Any] = []

    def __call__(self, asked: Asked) -> Answer:
        path, _, query = asked.path.partition("?")
        status = {"name": "c", "connector": {"state": "RUNNING"}, "tasks": [], "type": "source"}
        info = {"name": "c", "config": CONFIG, "tasks": [], "type": "source"}
        if path.endswith("/validate"):
            topic = {"definition": None, "value": {"name": "topic", "errors": self.errors}}
            return Answer({"configs": [topic], "warnings": []})
        if asked.method == "PUT":
            self.stored.append(json.loads(asked.body))
        if path == "/connector-plugins/X/config":
            return Answer([{"name": "db.password", "type": "PASSWORD"}])
        expanded = {"c": {"info": info, "status": status}} if query else ["c"]
        return Answer({"/connectors": expanded, "/connectors/c/status": status}.get(path, info))


def edited(worker: Worker, tmp_path: Path, change: str, *options: str, typed: str | None = None) -> Ran:
    """Run the command with an editor that replaces a text by another: `BEFORE>AFTER`."""
    before, _, after = change.partition(">")
    editor = tmp_path / "editor.py"
    editor.write_text(
        f"import sys, pathlib\np = pathlib.Path(sys.argv[1])\n"
        f"p.write_text(p.read_text().replace({before!r}, {after!r}))\n"
    )
    with HttpAnswers(worker) as served:
        environment = {"EDITOR": f"{sys.executable} {editor}", "VISUAL": ""}
        return fencepost("edit", "c", "--url", served.url, *options, typed=typed, **environment)


def test_edited_config_is_shown_and_stored_after_confirmation(tmp_path: Path) -> None:
    worker = Worker([])
    done = edited(worker, tmp_path, '"topic": "t">"topic": "u"', typed="y\n")
    assert (done.code, worker.stored) == (0, [{**CONFIG, "name": "c", "topic": "u"}])
    assert "- topic=t" in done.out
    assert "+ topic=u" in done.out
    assert "store this? [y/N]" in done.err


def test_unchanged_config_is_not_stored_after_edit(tmp_path: Path) -> None:
    worker = Worker([])
    done = edited(worker, tmp_path, "absent>x", "--yes")
    assert (done.code, done.out, worker.stored) == (0, "Nothing was changed\n", [])


@pytest.mark.parametrize(
    ("errors", "change", "said"),
    [(["no such topic"], '"t">"u"', "no such topic"), ([], '"name": "c">"name": "d"', "it must stay c")],
    ids=["refused by validation", "another name"],
)
def test_invalid_edited_config_is_not_stored(tmp_path: Path, errors: list[str], change: str, said: str) -> None:
    worker = Worker(errors)
    done = edited(worker, tmp_path, change, typed="n\n")
    assert (done.code, worker.stored) == (1, [])
    assert said in done.err
    assert "Edit it again?" in done.err


def test_missing_editor_is_named(tmp_path: Path) -> None:
    with HttpAnswers(Worker([])) as served:
        done = fencepost("edit", "c", "--url", served.url, EDITOR="/absent/editor", VISUAL="")
    assert done.code == 1
    assert "/absent/editor" in done.err
    assert "set EDITOR" in done.err
