"""How the command line presents itself: groups of commands, one way to ask for JSON, numbers of things."""

import json
from pathlib import Path

import pytest
from typer.main import get_command

from fencepost.cli.connect import Connect, access
from fencepost.cli.main import _ORDER, app
from fencepost.cli.output import counted
from fencepost.config import ConfigError
from support.command_line import fencepost
from support.http_answers import Answer, HttpAnswers

EVENT = {
    "time": "1", "level": "INFO", "logger": "x", "connector": "c", "task": 0, "message": "m", "exception": None,
    "worker_id": "w",
}  # fmt: skip


def commands() -> dict[str, object]:
    return dict(get_command(app).commands)  # type: ignore[attr-defined]


def test_each_command_is_in_one_group_of_the_help() -> None:
    assert set(commands()) == set(_ORDER)
    shown = fencepost("--help").out
    places = [shown.index(f" {title} ") for title in ("Start here", "Connectors", "Cluster", "Tools")]
    assert places == sorted(places)
    assert shown.index("Start here") < shown.index(" dev ") < shown.index(" apply ") < shown.index("Connectors")
    assert "Write the project of a plug-in" in shown


@pytest.mark.parametrize("option", [("--output", "json"), ("-o", "json"), ("--json",)])
def test_json_output_is_chosen_with_output_or_the_old_hidden_option(option: tuple[str, ...]) -> None:
    with HttpAnswers(lambda _: Answer({"events": [EVENT], "missed": [], "cursor": "x"})) as served:
        shown = fencepost("logs", "c", "--url", served.url, *option)
    assert json.loads(shown.out) == EVENT
    assert "--json" not in fencepost("logs", "--help").out


def test_no_command_has_its_own_json_option() -> None:
    groups = {name: getattr(one, "commands", {name: one}) for name, one in commands().items()}
    every = [(f"{group} {name}", one) for group, found in groups.items() for name, one in found.items()]
    assert [name for name, one in every for each in one.params if "--json" in each.opts] == []


def test_new_source_writes_the_project_of_a_source(tmp_path: Path) -> None:
    done = fencepost("new", "source", "price-feed", "--dir", tmp_path / "a")
    assert done.code == 0, done.text
    assert "SourceConnector" in (tmp_path / "a/src/price_feed/connector.py").read_text()


def test_unreachable_default_worker_error_suggests_fencepost_dev(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr("fencepost.cli.connect.DEFAULT_URL", "http://127.0.0.1:1")
    for given, said in ((None, "fencepost dev"), ("http://127.0.0.1:1", "set this to a worker's REST address")):
        with Connect(access(given, None, {})) as connect, pytest.raises(ConfigError, match=said):
            connect.get("connectors")


def test_question_names_the_worker_address_without_its_password() -> None:
    assert access(None, None, {"FENCEPOST_URL": "http://a:b@w:1"}).place == "http://w:1"
    assert access("http://w:1", None, {}).place == "http://w:1"


def test_counted_noun_is_singular_for_one() -> None:
    assert [counted(number, "task") for number in (0, 1, 2)] == ["0 tasks", "1 task", "2 tasks"]
