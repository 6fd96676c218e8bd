"""What counts as evidence that a file is gone, and what does not."""

import os
from pathlib import Path

import pytest

from fencepost.connector.local_directory import ensure_nothing, identity, is_gone

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


def test_a_name_that_answers_no_such_file_is_gone(file: Path) -> None:
    assert not _is_gone(file)
    file.unlink()
    assert _is_gone(file)


def test_a_file_is_gone_when_another_plain_file_has_its_name(file: Path) -> None:
    _write(file, b"longer")
    assert _is_gone(file)


@pytest.mark.parametrize("target", ["nowhere", "loop", "directory", "another"])
def test_a_link_is_no_evidence_wherever_it_leads(file: Path, target: str) -> None:
    (file.parent / "directory").mkdir()
    (file.parent / "loop").symlink_to("loop")
    (file.parent / "another").write_text("another file")
    file.unlink()
    file.symlink_to(target)
    assert not _is_gone(file)


def test_nothing_is_gone_from_another_directory_under_the_same_path_or_none(file: Path) -> None:
    known, parent = identity(str(file.parent)), file.parent
    parent.rename(parent.with_name("away"))
    assert not _is_gone(file, known)
    parent.mkdir()
    assert not _is_gone(file, known)
    parent.rmdir()
    parent.write_text("a file")
    assert not _is_gone(file, known)


def test_an_error_is_no_evidence(file: Path) -> None:
    assert not _is_gone(file.with_name("n" * 300))  # "File name too long", as a disk or a server may say anything


def test_nothing_stands_at_a_path_that_answers_so_itself(file: Path) -> None:
    ensure_nothing(str(file.with_name("b.csv")))
    file.with_name("b.csv").symlink_to("nowhere")
    with pytest.raises(OSError, match="its target is away"):
        ensure_nothing(str(file.with_name("b.csv")))
    with pytest.raises(OSError, match="too long"):
        ensure_nothing(str(file.with_name("n" * 300)))
