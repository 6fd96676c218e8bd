"""The archive of a host's classes, of a real Java."""

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.builtin.java import start
from fencepost.builtin.java.error import JavaUnavailableError
from fencepost.builtin.java.port import HostOptions
from fencepost.builtin.java.start import plain_options, start_host


def archive_of_a_host() -> str | None:
    """Start a host, and return the archive that it uses."""
    with start_host(HostOptions(label="host of tests")) as host:
        found = re.search(r"\S+/java-host-\w+-\w+\.jsa$", Path(f"/proc/{host.pid}/maps").read_text(), re.MULTILINE)
    return found and found[0]


def given_up_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Start a host that has no time to make an archive, and return the empty file that says so."""
    monkeypatch.setattr(start, "default_cache", lambda: tmp_path)
    monkeypatch.setattr(start, "_LIMIT_S", 0.01)
    assert archive_of_a_host() is None
    (found,) = tmp_path.glob("*.jsa")
    return found


@pytest.fixture(scope="module")
def own_archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The archive of a first host, which takes its time. That of the user may have been given up by another test."""
    directory = tmp_path_factory.mktemp("archive")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(start, "default_cache", lambda: directory)
        patched.setattr(start, "_LIMIT_S", 300.0)
        with pytest.raises(JavaUnavailableError):
            start_host(HostOptions(["-Xno"], "host of tests"))
        yield Path(archive_of_a_host() or "")


def test_archive_is_made_after_hosts_with_wrong_options_failed_to_start(own_archive: Path) -> None:
    assert own_archive.stat().st_size > 0


def test_a_host_runs_with_the_archive_of_its_classes(own_archive: Path) -> None:
    assert archive_of_a_host() == str(own_archive)


def test_host_starts_without_a_truncated_archive(
    own_archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = own_archive
    cut_off = tmp_path / whole.name
    cut_off.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    monkeypatch.setattr(start, "default_cache", lambda: tmp_path)
    monkeypatch.chdir(tmp_path)
    assert archive_of_a_host() is None
    assert os.stat(cut_off).st_size == 0
    assert not list(tmp_path.glob("*.log"))  # what Java writes down of its crash


def test_host_waits_a_limited_time_for_another_host_that_makes_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert given_up_archive(tmp_path, monkeypatch).stat().st_size == 0


def test_failed_archive_is_tried_again_after_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given_up = given_up_archive(tmp_path, monkeypatch)
    hours_ago_s = time.time() - 23 * 3600
    os.utime(given_up, (hours_ago_s, hours_ago_s))
    assert archive_of_a_host() is None
    assert given_up.stat().st_mtime == pytest.approx(hours_ago_s)


def test_a_host_starts_with_a_java_that_cannot_trim_its_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "default_cache", lambda: tmp_path)
    monkeypatch.setattr(start, "jvm_options", lambda *_: [*plain_options(), "-XX:NoSuchOption=1"])
    assert archive_of_a_host() is None
