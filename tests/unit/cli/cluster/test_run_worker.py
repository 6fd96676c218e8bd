"""`fencepost dev` and `worker`: what they say before anything is started, and what the worker of `dev` is told."""

import json
import logging
import socket
from pathlib import Path

import pytest

from fencepost.cli.client import plugin_directory
from fencepost.cli.cluster import worker as run


@pytest.mark.parametrize("is_rest", [True, False])
def test_second_dev_suggests_other_ports_when_its_ports_are_taken(
    is_rest: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as first:
        taken = first.getsockname()[1]
        code = run.run_dev(taken if is_rest else 0, 0 if is_rest else taken, None, [])
    assert code == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert f"port {taken}" in said.err
    assert "fencepost dev --port 8084 --kafka-port 9093" in said.err


def test_worker_start_errors_are_json_if_the_log_format_is_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FENCEPOST_LOG_FORMAT", "json")
    monkeypatch.setattr(logging.root, "handlers", [*logging.root.handlers])
    (tmp_path / "w.properties").write_text("group.id=g\nsession.timeout.ms=soon\n")
    assert run.run_worker(tmp_path / "w.properties") == 1
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert {each["level"] for each in said} == {"error"}
    assert any("session.timeout.ms" in each["event"] for each in said)
    assert any('"key.converter"' in each["event"] for each in said)


def test_dev_sets_no_options_of_its_converters() -> None:
    assert not [key for key in run.DEV if key.startswith(("key.converter.", "value.converter."))]


def test_dev_adds_the_plugin_install_directory_to_the_given_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert run._plugin_path("", []) == {}
    assert run._plugin_path("a,b", [Path("c")]) == {"plugin.path": "c,a,b"}
    installed = plugin_directory()
    installed.mkdir(parents=True)
    assert run._plugin_path("", []) == {"plugin.path": str(installed)}
    assert run._plugin_path("a,b", [Path("c")]) == {"plugin.path": f"c,a,b,{installed}"}
