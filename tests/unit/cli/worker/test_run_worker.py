"""`fencepost dev`: what it says before anything is started, and what its worker is told."""

import socket

import pytest

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
