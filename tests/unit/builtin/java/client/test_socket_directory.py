"""The directories of hosts: those whose owner was killed are removed by the next one."""

import os
import subprocess
import sys
from pathlib import Path

from fencepost.builtin.java.client.process import SocketDirectory


def directories(parent: Path) -> list[Path]:
    return sorted(parent.iterdir())


def test_a_directory_of_a_process_that_was_killed_is_removed_by_the_next_one(tmp_path: Path) -> None:
    program = (
        "import os, pathlib, signal, sys\n"
        "from fencepost.builtin.java.client.process import SocketDirectory\n"
        "made = SocketDirectory(pathlib.Path(sys.argv[1]))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False).returncode == -9
    (left,) = directories(tmp_path)
    (left / "host").touch()
    mine = SocketDirectory(tmp_path)
    assert directories(tmp_path) == [mine.path]
    mine.remove()


def test_directory_in_use_is_not_removed(tmp_path: Path) -> None:
    first, second = SocketDirectory(tmp_path), SocketDirectory(tmp_path)
    assert directories(tmp_path) == sorted([first.path, second.path])
    first.remove()
    first.remove()
    assert directories(tmp_path) == [second.path]
    second.remove()
    assert directories(tmp_path) == []


def test_unfinished_or_foreign_directory_is_not_removed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "owner").touch()
    (tmp_path / "fencepost-host-link").symlink_to(elsewhere)
    (tmp_path / "fencepost-host-new").mkdir()
    (tmp_path / "fencepost-host-file").touch()
    SocketDirectory(tmp_path).remove()
    assert {each.name for each in directories(tmp_path)} == {
        "elsewhere",
        "fencepost-host-file",
        "fencepost-host-link",
        "fencepost-host-new",
    }
    assert os.listdir(elsewhere) == ["owner"]
