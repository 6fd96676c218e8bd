"""The archive of the classes of hosts: made once, for its jars and its Java, and never in a host's way."""

import os
from pathlib import Path
from threading import Event
from typing import Any, Self

import pytest

from fencepost.builtin.java import start
from fencepost.builtin.java.error import HostEndedError, JavaUnavailableError
from fencepost.embedded import class_archive
from fencepost.embedded.class_archive import ClassArchive
from fencepost.embedded.java import Java


class Host:
    """One that writes an archive."""

    def __init__(self, option: str) -> None:
        self.archive = Path(option.removeprefix("-XX:ArchiveClassesAtExit="))
        self.is_killed = Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...

    def kill(self, why: str) -> None:
        self.is_killed.set()


def writes(host: Host) -> None:
    host.archive.write_text("classes")


class Hosts:
    """Starts hosts; `ends` is what becomes of each: how it writes an archive, or the error with which it starts."""

    def __init__(self, directory: Path) -> None:
        self.jars = [directory / "host.jar", directory / "connect.jar"]
        self.java = Java(directory / "java" / "bin" / "java", "17.0.1")
        modules = directory / "java" / "lib" / "modules"
        modules.parent.mkdir(parents=True)
        for each in (*self.jars, modules):
            each.touch()
        self.starts = 0
        self.error: Exception | None = None

    def options(self, *own: str) -> list[str]:
        """Return what `start_host` adds to a host's options."""
        if class_archive.is_chosen(own):
            return []
        archive = start.class_archive(self.java, self.jars)
        return [] if archive is None else start.archive_options(archive, self._start)

    def _start(self, option: str) -> Any:
        self.starts += 1
        if self.error is not None:
            raise self.error
        return Host(option)


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hosts:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(start, "_train", writes)
    return Hosts(tmp_path)


def archives(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache" / "fencepost").glob("*.jsa"))


def test_class_archive_is_created_by_the_first_host_and_used_by_all(hosts: Hosts, tmp_path: Path) -> None:
    first, second = hosts.options(), hosts.options()
    (path,) = archives(tmp_path)
    assert first == second
    assert f"-XX:SharedArchiveFile={path}" in first
    assert path.read_text() == "classes"
    assert hosts.starts == 1


def test_class_archive_is_created_again_when_a_jar_was_replaced(hosts: Hosts, tmp_path: Path) -> None:
    """Java would ignore the old archive, and no host would create a new one."""
    hosts.options()
    (old,) = archives(tmp_path)
    os.utime(hosts.jars[0], (0, 0))
    hosts.options()
    (new,) = archives(tmp_path)
    assert new != old
    assert hosts.starts == 2


def test_class_archive_in_an_image_layer_is_used(hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its jars have whole seconds there, and the user who runs a worker may not change the archive."""
    os.utime(hosts.jars[0], ns=(0, 1_700_000_000_900_000_000))
    options = hosts.options()
    os.utime(hosts.jars[0], ns=(0, 1_700_000_000_000_000_000))

    def refused(*_: object) -> None:
        raise PermissionError("it is another user's")

    monkeypatch.setattr(class_archive.os, "utime", refused)
    assert hosts.options() == options != []
    assert hosts.starts == 1


def test_unused_class_archive_of_another_installation_is_kept_for_a_month(hosts: Hosts, tmp_path: Path) -> None:
    hosts.options()
    first = hosts.jars[:1]
    hosts.jars = first
    hosts.options()
    assert len(archives(tmp_path)) == 2
    for each in archives(tmp_path):
        os.utime(each, (0, 0))
    hosts.options()  # uses its own again
    hosts.jars = [*first, *first]
    hosts.options()
    assert len(archives(tmp_path)) == 2


@pytest.mark.parametrize("error", [JavaUnavailableError("no such option"), RuntimeError("can't start new thread")])
def test_class_archive_that_cannot_be_created_is_tried_once_without_an_error(hosts: Hosts, error: Exception) -> None:
    hosts.error = error
    assert [hosts.options(), hosts.options()] == [[], []]
    assert hosts.starts == 1


def test_jvm_that_hangs_while_creating_the_class_archive_is_killed(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hangs(host: Host) -> None:
        assert host.is_killed.wait(60)
        raise HostEndedError("it was killed")

    monkeypatch.setattr(start, "_LIMIT_S", 0.01)
    monkeypatch.setattr(start, "_train", hangs)
    assert [hosts.options(), hosts.options()] == [[], []]
    assert hosts.starts == 1


def test_unexpected_error_in_the_archive_code_stops_no_host(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClassArchive, "make", lambda *_, waits: {}["missing"])
    assert hosts.options() == []


def test_host_does_not_wait_while_another_creates_the_class_archive(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That may be in a slot which was stopped."""
    meanwhile: list[list[str]] = []

    def train(host: Host) -> None:
        meanwhile.append(hosts.options())
        writes(host)

    monkeypatch.setattr(start, "_train", train)
    assert hosts.options()
    assert meanwhile == [[]]
    assert hosts.starts == 1


@pytest.mark.parametrize("own", ["-Xshare:off", "-XX:SharedArchiveFile=/own.jsa", "-XX:ArchiveClassesAtExit=/own.jsa"])
def test_class_archive_is_not_used_when_the_user_sets_its_options(hosts: Hosts, own: str) -> None:
    assert hosts.options("-Xmx1g", own) == []
    assert hosts.starts == 0


def test_class_archive_is_used_where_a_script_starts_java(hosts: Hosts, tmp_path: Path) -> None:
    (tmp_path / "java" / "lib" / "modules").unlink()
    assert hosts.options()


def test_missing_jar_means_no_class_archive(hosts: Hosts) -> None:
    hosts.jars[0].unlink()
    assert hosts.options() == []
    assert hosts.starts == 0
