"""A directory of this machine: a file is on disk before it is published, and is published once."""

import contextlib
import errno
import io
import json
import os
import shutil
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fencepost.api import ConfigError, Epoch, FatalError, OffsetRange
from fencepost.builtin.connector.file_system import DirectoryError
from fencepost.builtin.connector.files import sink as files_sink
from fencepost.builtin.connector.files import store as module
from fencepost.builtin.connector.files.sink import FilesSink
from fencepost.builtin.connector.files.store import HadoopFiles, LocalFiles

EPOCH = Epoch(1, (OffsetRange("t", 0, 0, 5), OffsetRange("t", 1, 3, 4)))
UUID = "0" * 8 + "-0000-0000-0000-" + "0" * 12


class Written(FilesSink):
    """A sink whose Spark job is made up: it writes a file for each range, and what Spark writes besides."""

    def _store(self, session: Any) -> LocalFiles:
        return LocalFiles(self.path, Path(self.path))

    def save(self, frame: Any, place: str) -> None:
        for directory in ("a=1", "a=2"):
            os.makedirs(f"{place}/{directory}")
            for part in range(2):
                Path(place, directory, f"part-{part:05d}-{UUID}.c000.json").write_text(f"{directory} {part}\n")
        Path(place, "_SUCCESS").touch()
        Path(place, f".part-00000-{UUID}.c000.json.crc").touch()


@pytest.fixture(autouse=True)
def without_executors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_sink, "is_certain", lambda *_: True)
    monkeypatch.setattr(files_sink, "ensure_shared", lambda *_: None)


@pytest.fixture
def sink(tmp_path: Path) -> FilesSink:
    return Written({"name": "out", "path": str(tmp_path / "out"), "format": "json"})


def aside(sink: FilesSink) -> Path:
    return Path(sink.path, sink.staging)


def shown(sink: FilesSink) -> dict[str, str]:
    root = Path(sink.path)
    found = [path for path in root.rglob("*") if path.is_file() and ".fencepost" not in path.parts]
    return {str(path.relative_to(root)): path.read_text().strip() for path in found}


def test_e17_files_are_synced_to_disk_before_they_are_published(
    sink: FilesSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_disk: set[int] = set()
    moved: list[bool] = []
    fsync, link = os.fsync, os.link

    def noted(descriptor: int) -> None:
        fsync(descriptor)
        on_disk.add(os.fstat(descriptor).st_ino)

    def checked(source: Path, target: Path) -> None:
        moved.append({source.stat().st_ino, source.parent.stat().st_ino} <= on_disk)
        link(source, target)

    monkeypatch.setattr(module.os, "fsync", noted)
    monkeypatch.setattr(module.os, "link", checked)
    token = sink.write(None, None, EPOCH)
    sink.publish(None, EPOCH, token)
    assert moved == [True] * 4
    assert {path.stat().st_ino for path in Path(sink.path).glob("a=*")} <= on_disk, "the new names are not on disk"


def test_e17_repeated_publish_shows_each_file_once(sink: FilesSink) -> None:
    token = sink.write(None, None, EPOCH)
    assert shown(sink) == {}
    sink.publish(None, EPOCH, token)
    before = shown(sink)
    first, second = "0" * 20 + "-" + "0" * 19 + "4", "0" * 19 + "3-" + "0" * 19 + "3"
    assert before == {f"a={a}/t+{p}+{r}.json": f"a={a} {p}" for a in "12" for p, r in enumerate((first, second))}
    sink.publish(None, EPOCH, token)  # a successor, or a zombie
    assert shown(sink) == before
    sink.published(None, EPOCH, token)
    assert shown(sink) == before
    assert [path.name for path in aside(sink).rglob("*") if path.name != token] == ["moves.json"]


def test_start_deletes_only_staged_files_of_abandoned_epochs(sink: FilesSink) -> None:
    """A replaced start may clean up late, while its successor writes."""
    first, second, third = (sink.write(None, None, Epoch(number, EPOCH.ranges)) for number in (1, 1, 2))
    sink.started(None, 1, ())
    assert {path.name for path in aside(sink).iterdir()} == {first, second, third}
    sink.started(None, 2, (second,))
    assert {path.name for path in aside(sink).iterdir()} == {second, third}
    other = Written({**cast(Any, sink.originals)})
    other.owner = "another cluster/connect-out"
    other.started(None, 9, ())
    assert {path.name for path in aside(sink).iterdir()} == {second, third}


def test_e16_epoch_without_revoked_ranges_publishes_the_remaining_files(sink: FilesSink) -> None:
    token = sink.write(None, None, EPOCH)
    left = Epoch(1, EPOCH.ranges[1:])
    sink.publish(None, left, token)
    assert sorted(shown(sink).values()) == ["a=1 1", "a=2 1"]
    sink.published(None, left, token)


def test_files_of_another_open_epoch_with_the_same_number_are_kept(sink: FilesSink) -> None:
    """Two epochs are open with one number after the topics were changed twice."""
    ranges = (OffsetRange("u", 0, 0, 5), OffsetRange("u", 1, 3, 4))
    epochs = [EPOCH, Epoch(1, ranges, "other")]
    tokens = [sink.write(None, None, epoch) for epoch in epochs]
    successor = Written({**cast(Any, sink.originals)})
    successor.started(None, 1, set(tokens))
    for epoch, token in zip(epochs, tokens, strict=True):
        successor.publish(None, epoch, token)
        successor.published(None, epoch, token)
    assert len(shown(sink)) == 8


def test_e17_zombie_deletes_no_files_of_its_successor_after_deleted_offsets(sink: FilesSink) -> None:
    """The zombie freezes before it cleans up its last epoch, and the offsets are deleted meanwhile."""
    for number in (56, 57):
        token = sink.write(None, None, Epoch(number, (OffsetRange("t", 0, number, number + 1), EPOCH.ranges[1])))
        sink.published(None, Epoch(number, EPOCH.ranges), token)
    successor = Written({**cast(Any, sink.originals)})
    known = successor.started(None, 0, ())
    assert known == 57
    epoch = Epoch(known + 1, EPOCH.ranges)
    token = successor.write(None, None, epoch)
    sink.published(None, Epoch(57, EPOCH.ranges), "57-its-own")
    successor.publish(None, epoch, token)
    assert len(shown(sink)) == 4
    successor.published(None, epoch, token)
    assert [path.name for path in aside(sink).iterdir()] == [token], "the directory knows the newest number"
    assert not list(aside(sink).rglob("part-*")), "what is shown takes no room here"


def test_e17_zombie_publishes_nothing_after_deleted_offsets_and_a_successor(sink: FilesSink) -> None:
    epoch, token = Epoch(57, EPOCH.ranges), sink.write(None, None, Epoch(57, EPOCH.ranges))
    successor = Written({**cast(Any, sink.originals)})
    again = Epoch(1 + successor.started(None, 0, ()), EPOCH.ranges)
    successor.write(None, None, again)
    with pytest.raises(ConfigError, match="the files of epoch 57 are missing"):
        sink.publish(None, epoch, token)
    assert shown(sink) == {}


def test_failed_write_of_an_epoch_leaves_no_staged_files(sink: FilesSink, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DirectoryError, match="no space left"):
        sink.write(None, None, EPOCH)
    assert list(aside(sink).iterdir()) == []


def test_files_sink_refuses_a_file_name_that_spark_does_not_produce(
    sink: FilesSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save(self: FilesSink, frame: Any, place: str) -> None:
        os.makedirs(place)
        Path(place, "foo-00000.json").touch()

    monkeypatch.setattr(Written, "save", save)
    with pytest.raises(FatalError, match=r"foo-00000\.json is not a name that Spark gives"):
        sink.write(None, None, EPOCH)


@pytest.mark.parametrize("settings", [{}, {"writer.maxRecordsPerFile": "1"}, {"file.rows.max": "1"}])
def test_each_file_of_a_range_cut_by_spark_settings_has_its_own_name(
    sink: FilesSink, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]
) -> None:
    """`spark.sql.files.maxRecordsPerFile` cuts files independently of the sink's settings."""

    def save(self: FilesSink, frame: Any, place: str) -> None:
        os.makedirs(place)
        for roll in range(3):
            Path(place, f"part-00000-{UUID}.c{roll:03d}.json").write_text("equal\n")

    monkeypatch.setattr(Written, "save", save)
    cut = Written({**cast(Any, sink.originals), **settings})
    cut.publish(None, EPOCH, cut.write(None, None, EPOCH))
    assert [name[-11:] for name in sorted(shown(sink))] == ["+00000.json", "+00001.json", "+00002.json"]


def test_files_sink_refuses_two_files_that_would_get_the_same_name(
    sink: FilesSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save(self: FilesSink, frame: Any, place: str) -> None:
        os.makedirs(place)
        for uuid in (UUID, "1" + UUID[1:]):
            Path(place, f"part-00000-{uuid}.c000.json").write_text("equal\n")

    monkeypatch.setattr(Written, "save", save)
    with pytest.raises(FatalError, match=r"would be published as t\+0\+"):
        sink.write(None, None, EPOCH)
    assert list(aside(sink).iterdir()) == []


def test_e17_missing_file_counts_as_published_only_with_proof(sink: FilesSink) -> None:
    """Earlier versions left no mark of a move; there the file under its published name is the proof."""
    token = sink.write(None, None, EPOCH)
    lost, moved, *_ = sorted(aside(sink).rglob("part-*.json"))
    content = lost.read_text()
    list_ = json.loads((aside(sink) / token / "moves.json").read_text())
    Path(sink.path, "a=1").mkdir()
    moved.rename(Path(sink.path, list_[str(moved.relative_to(sink.path))]))
    lost.unlink()
    for _ in range(2):
        with pytest.raises(DirectoryError, match=r"part-00000.* is missing, and was not published as .*a=1/t\+0"):
            sink.publish(None, EPOCH, token)
    lost.write_text(content)
    sink.publish(None, EPOCH, token)
    assert sorted(shown(sink).values()) == ["a=1 0", "a=1 1", "a=2 0", "a=2 1"]


def test_e17_file_is_not_published_if_its_target_directory_vanishes_in_the_move(
    sink: FilesSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = sink.write(None, None, EPOCH)
    link, gone = os.link, []

    def removed(source: Path, target: Path) -> None:
        if not gone:
            gone.append(target)
            target.parent.rmdir()  # somebody tidies empty directories
        link(source, target)

    monkeypatch.setattr(module.os, "link", removed)
    with pytest.raises(DirectoryError, match="cannot be published"):
        sink.publish(None, EPOCH, token)
    sink.publish(None, EPOCH, token)
    assert len(shown(sink)) == 4


def test_e17_file_is_not_published_if_the_mount_vanishes_during_the_move(
    sink: FilesSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, mount, away = sink.write(None, None, EPOCH), Path(sink.path), Path(f"{sink.path}-away")
    read = LocalFiles.read

    def unmounted(self: LocalFiles, relative: str) -> str | None:
        text = read(self, relative)
        mount.rename(away)
        mount.mkdir()
        return text

    with monkeypatch.context() as patched:
        patched.setattr(LocalFiles, "read", unmounted)
        with pytest.raises(DirectoryError):
            sink.publish(None, EPOCH, token)
    shutil.rmtree(mount)
    away.rename(mount)
    sink.publish(None, EPOCH, token)
    assert len(shown(sink)) == 4


def test_e17_missing_staging_directory_is_an_error_and_not_an_empty_epoch(
    sink: FilesSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Written, "save", lambda *_: None)
    with pytest.raises(DirectoryError, match="cannot be listed"):
        sink.write(None, None, EPOCH)


def test_e17_file_that_another_start_publishes_concurrently_is_published(
    sink: FilesSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A zombie and its successor move the same files at the same moment."""
    token, link, others = sink.write(None, None, EPOCH), os.link, []

    def late(source: Path, target: Path) -> None:
        if not others:
            others.append(target)
            sink.publish(None, EPOCH, token)
        link(source, target)

    monkeypatch.setattr(module.os, "link", late)
    sink.publish(None, EPOCH, token)
    assert len(shown(sink)) == 4


@pytest.mark.parametrize("has_links", [True, False])
def test_files_sink_never_replaces_a_published_file(
    sink: FilesSink, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    def no_link(source: Path, target: Path) -> None:
        raise PermissionError(errno.EPERM, "no links here")

    if not has_links:
        monkeypatch.setattr(module.os, "link", no_link)
    sink.publish(None, EPOCH, sink.write(None, None, EPOCH))
    before = shown(sink)
    sink.publish(None, EPOCH, sink.write(None, None, EPOCH))  # the same rows, written again
    assert shown(sink) == before
    changed = Path(sink.path, next(iter(before)))
    changed.write_text("something else\n")
    with pytest.raises(DirectoryError, match="already exists with other contents"):
        sink.publish(None, EPOCH, sink.write(None, None, EPOCH))
    assert changed.read_text() == "something else\n"


def test_publish_succeeds_when_a_reader_removed_a_published_file(sink: FilesSink) -> None:
    token = sink.write(None, None, EPOCH)
    sink.publish(None, EPOCH, token)
    taken = next(iter(shown(sink)))
    Path(sink.path, taken).unlink()
    sink.publish(None, EPOCH, token)
    assert taken not in shown(sink)
    assert len(shown(sink)) == 3


def test_publish_fails_with_advice_when_the_path_setting_has_changed(sink: FilesSink, tmp_path: Path) -> None:
    token = sink.write(None, None, EPOCH)
    other = Written({**cast(Any, sink.originals), "path": str(tmp_path / "other")})
    with pytest.raises(Exception, match="put it back until the epoch is committed"):
        other.publish(None, EPOCH, token)


class Sum(str):
    """A file's checksum, as Hadoop compares it."""

    def equals(self, other: object) -> bool:
        return self == other


class Summed:
    """A file system whose sums say how a file was written, too, as those of object stores do."""

    def __init__(self, files: dict[str, tuple[str, str]]) -> None:
        self.files = files

    def getUri(self) -> Any:  # noqa: N802
        return SimpleNamespace(getScheme=lambda: "s3a")

    def exists(self, path: Any) -> bool:
        return str(path) in self.files

    def mkdirs(self, path: Any) -> None: ...

    def getFileChecksum(self, path: Any) -> Sum:  # noqa: N802
        return Sum(", ".join(self.files[str(path)]))

    def open(self, path: Any) -> Any:
        return io.StringIO(self.files[str(path)][0])

    def delete(self, path: Any, recursive: bool) -> None:
        del self.files[str(path)]

    def create(self, path: Any, overwrite: bool) -> Any:
        self.files[str(path)] = ("", "")
        return io.BytesIO()

    def rename(self, source: Any, target: Any) -> bool:
        self.files[str(target)] = self.files.pop(str(source))
        return True


class HadoopPath(PurePosixPath):
    def getParent(self) -> PurePosixPath:  # noqa: N802
        return self.parent


@pytest.mark.parametrize(("content", "is_same"), [("text", True), ("more", False)])
def test_hadoop_file_copied_in_other_blocks_counts_as_the_same(content: str, is_same: bool) -> None:
    system = Summed({"/d/aside": ("text", "2 pieces"), "/d/shown": (content, "1 piece")})
    store = in_hadoop(system)
    with contextlib.nullcontext() if is_same else pytest.raises(DirectoryError, match="exists with other contents"):
        store.move("aside", "shown")
    assert list(system.files) == (["/d/shown", "/d/aside.shown"] if is_same else ["/d/aside", "/d/shown"])


def in_hadoop(system: Summed) -> HadoopFiles:
    apache = SimpleNamespace(
        hadoop=SimpleNamespace(fs=SimpleNamespace(Path=HadoopPath)),
        commons=SimpleNamespace(
            io=SimpleNamespace(IOUtils=SimpleNamespace(contentEquals=lambda a, b: a.read() == b.read()))
        ),
    )
    jvm = SimpleNamespace(org=SimpleNamespace(apache=apache))
    return HadoopFiles("/d", SimpleNamespace(_jvm=jvm), system)


def test_e17_missing_hadoop_file_counts_as_published_only_with_proof() -> None:
    system = Summed({"/d/aside": ("text", "1 piece")})
    store = in_hadoop(system)
    store.move("aside", "shown")
    store.move("aside", "shown")
    del system.files["/d/shown"]  # a reader has taken it away
    store.move("aside", "shown")
    del system.files["/d/aside.shown"]
    with pytest.raises(DirectoryError, match=r"aside is missing, and was not published.*create aside\.shown"):
        store.move("aside", "shown")
    system.files["/d/shown"] = ("text", "1 piece")  # whoever moved it died before it left the mark
    store.move("aside", "shown")
    del system.files["/d/shown"]
    store.move("aside", "shown")
