"""What two listings in a row prove of files that are missing."""

from fencepost.connector.sightings import Sightings
from fencepost.connector.spool_directory import FoundFile

A, B, C = (FoundFile(f"/in/{name}", 1, 1) for name in "abc")
ANOTHER_A = FoundFile("/in/a", 2, 2)


def removed(*listings: tuple[str | None, list[FoundFile]]) -> list[FoundFile]:
    sightings = Sightings()
    for directory, files in listings:
        sightings.note(directory, files)
    return [file for file in (A, B, C, ANOTHER_A) if sightings.is_removed(file)]


def test_what_was_there_and_is_not_is_removed_also_when_nothing_is_left() -> None:
    assert removed(("x", [A, B]), ("x", [B])) == [A]
    assert removed(("x", [A, B]), ("x", [])) == [A, B]
    assert removed(("x", [A]), ("x", [ANOTHER_A])) == [A]


def test_what_was_never_seen_is_not_removed() -> None:
    assert removed(("x", [A])) == []
    assert removed(("x", [A]), ("x", [A, C])) == []


def test_nothing_is_removed_while_another_directory_stands_there_or_nobody_knows() -> None:
    assert removed(("x", [A, B]), ("mount point", [C])) == []
    assert removed(("x", [A, B]), ("mount point", [C]), ("mount point", [C])) == []
    assert removed(("x", [A, B]), ("mount point", [C]), ("x", [A, B])) == []
    assert removed((None, [A, B]), (None, [B])) == []
