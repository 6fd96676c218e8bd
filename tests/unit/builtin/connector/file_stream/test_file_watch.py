"""FileWatch notices changes of a file."""

import os
import threading
from pathlib import Path

import pytest

from fencepost.builtin.connector.file_stream.watch import FileWatch
from fencepost.testing import eventually


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lines"
    path.write_text("a\n")
    probe = FileWatch(str(path), lambda: None)
    if not probe.arm():
        pytest.skip("this file system does not tell")
    probe.close()
    return path


def test_file_watch_notifies_once_each_time_it_is_armed(file: Path) -> None:
    told: list[int] = []
    watch = FileWatch(str(file), lambda: told.append(1))
    for count in (1, 2):
        assert watch.arm()
        with file.open("a") as out:
            out.write("b\n")
            out.flush()
            out.write("c\n")
        eventually(lambda: len(told) == count, within_s=60)  # noqa: B023


def test_file_change_notifies_every_open_watch(file: Path) -> None:
    told = [threading.Event() for _ in range(5)]
    watches = [FileWatch(str(file), each.set) for each in told]
    assert all(watch.arm() for watch in watches)
    watches[4].close()
    file.write_text("new\n")
    assert all(each.wait(60) for each in told[:4])
    assert not told[4].is_set()


def test_file_watch_notifies_when_the_file_is_replaced(file: Path, tmp_path: Path) -> None:
    told = threading.Event()
    watch = FileWatch(str(file), told.set)
    assert watch.arm()
    successor = tmp_path / "other"
    successor.write_text("x\n")
    os.replace(successor, file)
    assert told.wait(60)
    assert watch.arm()


def test_file_watch_cannot_be_armed_for_a_missing_file(tmp_path: Path) -> None:
    assert not FileWatch(str(tmp_path / "none"), lambda: None).arm()
