"""Lines of several tasks in one file."""

import os
from pathlib import Path
from typing import Any

import pytest

from fencepost.builtin.connector.file_stream import sink
from fencepost.builtin.connector.file_stream.sink import LineFile


def test_line_file_rewrites_a_line_that_another_task_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder of the lock was frozen within a batch until another task wrote without the lock."""
    path = tmp_path / "out"
    ours = LineFile(str(path))
    calls = 0
    writev = os.writev

    def interrupted(descriptor: int, pieces: Any) -> int:
        nonlocal calls
        calls += 1
        if calls == 2:
            with path.open("ab") as other:
                other.write(b"theirs\n")
        return writev(descriptor, pieces[:1])

    monkeypatch.setattr(sink.os, "writev", interrupted)
    ours.append([b"a line ", b"in two pieces\n"])
    ours.close()
    assert b"a line in two pieces" in path.read_bytes().split(b"\n")


def test_line_file_rewrites_lines_that_follow_a_half_line_of_another_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed task wrote the half line after the holder of the lock had checked the end of the file."""
    path = tmp_path / "out"
    ours = LineFile(str(path))
    fstat = os.fstat

    def overtaken(descriptor: int) -> os.stat_result:
        found = fstat(descriptor)
        with path.open("ab") as other:
            other.write(b"half of")
        return found

    monkeypatch.setattr(sink.os, "fstat", overtaken)
    ours.append([b"a\n", b"b\n"])
    ours.close()
    assert path.read_bytes().split(b"\n")[1:] == [b"b", b"a", b"b", b""]
