"""Which files are missing from a listing, and from which directory."""

from fencepost.builtin.connector.file_system import FoundFile
from fencepost.builtin.connector.spool.source import Sightings

A, B, C = (FoundFile(f"/in/{name}", 1, 1) for name in "abc")
ANOTHER_A = FoundFile("/in/a", 2, 2)


def missing(*listings: tuple[str | None, list[FoundFile]], asked: bool = True) -> list[FoundFile]:
    sightings, found = Sightings(), []
    for directory, files in listings:
        sightings.record(directory, files)
        found = [file for file in (A, B, C, ANOTHER_A) if asked and sightings.is_missing(file)]
    return found if asked else [file for file in (A, B, C, ANOTHER_A) if sightings.is_missing(file)]


def test_file_absent_from_the_next_listing_is_missing_even_if_it_is_empty() -> None:
    assert missing(("x", [A, B]), ("x", [B])) == [A]
    assert missing(("x", [A, B]), ("x", [])) == [A, B]
    assert missing(("x", [A]), ("x", [ANOTHER_A])) == [A]


def test_missing_file_stays_missing_until_it_returns_or_is_not_asked_for() -> None:
    assert missing(("x", [A, B]), ("x", [B]), ("x", [])) == [A, B]
    assert missing(("x", [A, B]), ("x", [B]), ("x", [A, B])) == []
    assert missing(("x", [A, B]), ("x", [B]), ("x", [B]), asked=False) == []


def test_file_never_listed_is_not_missing() -> None:
    assert missing(("x", [A])) == []
    assert missing(("x", [A]), ("x", [A, C])) == []


def test_no_file_is_missing_while_the_directory_is_replaced_or_unknown() -> None:
    assert missing(("x", [A, B]), ("mount point", [C])) == []
    assert missing(("x", [A, B]), ("mount point", [C]), ("mount point", [C])) == []
    assert missing(("x", [A, B]), ("mount point", [C]), ("x", [A, B])) == []
    assert missing((None, [A, B]), (None, [B])) == []
