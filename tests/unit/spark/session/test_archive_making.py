"""The archive of Spark's classes: when it is used, and when one is made."""

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from fencepost.embedded.class_archive import ClassArchive
from fencepost.spark.session import archive_making, jvm
from fencepost.spark.session.archive_making import LateArchive
from fencepost.spark.session.conf import spark_properties
from fencepost.spark.session.jvm import archive_options, class_archive
from fencepost.testing import eventually

_DAY_S = 24 * 3600


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file where the archive of this Java and this Spark is looked for."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = class_archive().path
    path.parent.mkdir()
    path.write_text("classes")
    return path


def test_existing_class_archive_is_used(archive: Path) -> None:
    assert f"-XX:SharedArchiveFile={archive}" in archive_options(spark_properties({}))


def test_missing_class_archive_is_not_passed_to_the_jvm(archive: Path) -> None:
    archive.unlink()
    assert archive_options(spark_properties({})) == []


def test_empty_file_is_not_used_as_class_archive(archive: Path) -> None:
    archive.write_text("")
    assert archive_options(spark_properties({})) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.driver.extraJavaOptions", "-Xshare:off"),
        ("spark.driver.extraJavaOptions", "-XX:SharedArchiveFile=/own.jsa"),
        ("spark.jars", "/a.jar"),  # spark-submit may put more in front of the class path
        ("spark.master", "spark://elsewhere:7077"),
    ],
)
def test_class_archive_is_not_used_with_own_archive_or_other_classes(archive: Path, key: str, value: str) -> None:
    assert archive_options(spark_properties({key: value})) == []


def test_replaced_jars_get_another_class_archive(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java would take the old one for none, and nobody would make a new one."""
    jar = tmp_path / "spark" / "jars" / "spark-core.jar"
    jar.parent.mkdir(parents=True)
    jar.touch()
    monkeypatch.setattr(jvm, "spark_home", lambda: tmp_path / "spark")
    first = class_archive()
    assert class_archive() == first
    os.utime(jar, (0, 0))
    assert class_archive() != first


def test_use_of_a_class_archive_renews_its_age(archive: Path) -> None:
    os.utime(archive, (0, 0))
    archive_options(spark_properties({}))
    assert archive.stat().st_mtime > time.time() - _DAY_S


def test_failed_class_archive_is_retried_after_a_day(archive: Path) -> None:
    archive.write_text("")
    assert class_archive().is_settled()
    os.utime(archive, (0, time.time() - _DAY_S - 1))
    assert not class_archive().is_settled()


@pytest.fixture
def process(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let a program that waits stand for the one that makes an archive; its file has the niceness that it is given."""
    program, said = tmp_path / "program.py", tmp_path / "said"
    program.write_text(
        f"import pathlib, sys, time\npathlib.Path({str(said)!r}).write_text(sys.argv[1])\ntime.sleep(600)\n"
    )
    monkeypatch.setattr(archive_making, "_COMMAND", [sys.executable, str(program)])
    monkeypatch.setattr(archive_making, "has_room", lambda: True)
    return said


def test_worker_makes_a_missing_class_archive_with_lowest_priority(archive: Path, process: Path) -> None:
    archive.unlink()
    late = LateArchive({}, after_s=0)
    try:
        assert eventually(lambda: process.exists() and process.read_text(), within_s=60) == "19"
        assert late.is_making
    finally:
        late.cancel()
    assert not late.is_making


def test_a_worker_makes_no_archive_where_memory_is_short(
    archive: Path, process: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.unlink()
    asked = threading.Event()

    def has_room() -> bool:
        asked.set()
        return False

    monkeypatch.setattr(archive_making, "has_room", has_room)
    late = LateArchive({}, after_s=0)
    assert asked.wait(60)
    late.cancel()
    assert not process.exists()


def test_a_worker_that_ends_at_once_makes_no_archive(archive: Path, process: Path) -> None:
    archive.unlink()
    late = LateArchive({}, after_s=600)
    late.cancel()
    late.begin()
    assert not late.is_making


def test_unfinished_class_archive_is_not_deleted_by_another_maker(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.unlink()
    own = class_archive()
    other = ClassArchive(own.directory, own.name, "000000000000", own.state)
    other_maker = threading.Thread(target=archive_making.main, daemon=True)
    archives = iter([own, other])
    monkeypatch.setattr(archive_making, "class_archive", lambda: next(archives))

    def train(fresh: Path) -> None:
        if other_maker.ident is None:
            other_maker.start()
            other_maker.join(0.5)  # it makes another archive meanwhile
        fresh.write_text("classes")

    monkeypatch.setattr(archive_making, "_train", train)
    archive_making.main()
    other_maker.join(60)
    assert [own.path.read_text(), other.path.read_text()] == ["classes", "classes"]
