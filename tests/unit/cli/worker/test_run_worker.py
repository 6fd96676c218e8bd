"""`fencepost dev`: what it says before anything is started, and what its worker is told."""

import socket
from pathlib import Path

import pytest

from fencepost.cli.places import plugin_directory
from fencepost.cli.worker import run


@pytest.mark.parametrize("is_rest", [True, False])
def test_a_second_dev_is_told_how_to_run_beside_the_first(is_rest: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as first:
        taken = first.getsockname()[1]
        code = run.run_dev(taken if is_rest else 0, 0 if is_rest else taken, None, [])
    assert code == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert f"port {taken}" in said.err
    assert "fencepost dev --port 8084 --kafka-port 9093" in said.err


def test_the_worker_of_dev_writes_what_a_file_that_names_the_same_converters_writes() -> None:
    assert not [key for key in run._DEV if key.startswith(("key.converter.", "value.converter."))]


def test_dev_finds_what_was_installed_besides_what_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert run._plugin_path("", []) == {}
    assert run._plugin_path("a,b", [Path("c")]) == {"plugin.path": "c,a,b"}
    installed = plugin_directory()
    installed.mkdir(parents=True)
    assert run._plugin_path("", []) == {"plugin.path": str(installed)}
    assert run._plugin_path("a,b", [Path("c")]) == {"plugin.path": f"c,a,b,{installed}"}
