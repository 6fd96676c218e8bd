"""What proves that a file is gone, and what does not."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fencepost.builtin.connector.file_system import ensure_nothing, identity, is_gone
from support.small_disk import small_disk

SIZE, AGE_MS = 3, 1_700_000_000_123


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "in" / "a.csv"
    found.parent.mkdir()
    _write(found, b"abc")
    return found


def _write(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    os.utime(file, ns=(0, AGE_MS * 1_000_000))


def _is_gone(file: Path, known: str | None = None) -> bool:
    directory = known or identity(str(file.parent))
    assert directory is not None
    return is_gone(str(file.parent), directory, file.name, lambda *found: found == (SIZE, AGE_MS))


def test_deleted_file_counts_as_gone(file: Path) -> None:
    assert not _is_gone(file)
    file.unlink()
    assert _is_gone(file)


def test_replaced_file_counts_as_gone(file: Path) -> None:
    _write(file, b"longer")
    assert _is_gone(file)


@pytest.mark.parametrize("target", ["nowhere", "loop", "directory", "another"])
def test_link_at_the_path_does_not_prove_that_the_file_is_gone(file: Path, target: str) -> None:
    (file.parent / "directory").mkdir()
    (file.parent / "loop").symlink_to("loop")
    (file.parent / "another").write_text("another file")
    file.unlink()
    file.symlink_to(target)
    assert not _is_gone(file)


def test_file_does_not_count_as_gone_when_its_directory_was_replaced_or_moved(file: Path) -> None:
    known, parent = identity(str(file.parent)), file.parent
    parent.rename(parent.with_name("away"))
    assert not _is_gone(file, known)
    parent.mkdir()
    assert not _is_gone(file, known)
    parent.rmdir()
    parent.write_text("a file")
    assert not _is_gone(file, known)


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[[], Path]]:
    """Mounts another, empty file system in the place of the one that was there."""
    place = tmp_path / "mounted"
    place.mkdir()
    with ExitStack() as mounted:

        def mount() -> Path:
            mounted.close()
            return mounted.enter_context(small_disk(place))

        yield mount


def test_file_does_not_count_as_gone_when_another_file_system_is_mounted(mount: Callable[[], Path]) -> None:
    """A disk mounted in place of another may have the same device number and the same inodes."""
    file = mount() / "a.csv"
    _write(file, b"abc")
    known, before = identity(str(file.parent)), os.stat(file.parent)
    mount()
    after = os.stat(file.parent)
    if (before.st_dev, before.st_ino) != (after.st_dev, after.st_ino):
        pytest.skip("the system gave it other numbers this time")
    assert not _is_gone(file, known)


def test_error_at_the_path_does_not_prove_that_the_file_is_gone(file: Path) -> None:
    assert not _is_gone(file.with_name("n" * 300))  # "File name too long", as a disk or a server may say anything


def test_path_counts_as_free_only_if_the_system_reports_no_such_file(file: Path) -> None:
    ensure_nothing(str(file.with_name("b.csv")))
    file.with_name("b.csv").symlink_to("nowhere")
    with pytest.raises(OSError, match="its target does not exist"):
        ensure_nothing(str(file.with_name("b.csv")))
    with pytest.raises(OSError, match="too long"):
        ensure_nothing(str(file.with_name("n" * 300)))
