"""The last row of each key of topics: what records make of it, in any number of partitions, and across a stop."""

from pathlib import Path

import pytest

from fencepost.builtin.postgres.audit.table import Known, Row
from fencepost.ledger.fold import UNSURE, Fold
from fencepost.record import TopicPartition

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows"


def row(key: str, hash_: int | None, at: int, lsn: int = 0) -> Row:
    return Row(key, hash_, Known.ALL, at, lsn)


def test_last_record_of_a_key_counts_and_a_delete_removes_it(path: Path) -> None:
    fold = Fold(path, "a")
    fold.add(ONE, 0, 3, [row("aaa1", 5, 0), row("aaa2", 6, 1), row("aaa1", 1 << 59, 2)])
    fold.add(ONE, 0, 5, [row("aaa2", None, 3), row("bbb1", 7, 4)])
    assert list(fold.sums(0, 3)) == [("aaa", 1, 1 << 59, True), ("bbb", 1, 7, True)]
    assert fold.next_offset(ONE) == 5
    fold.close()


def test_key_with_records_in_several_partitions_is_unsure(path: Path) -> None:
    fold = Fold(path, "a")
    fold.add(ONE, 0, 2, [row("aaa1", 5, 0), row("aaa2", 5, 1)])
    fold.add(TWO, 0, 2, [row("aaa1", 6, 0), row("aaa2", None, 1)])
    assert [(entry.key, entry.known) for entry in fold.unseen(0, {"aaa"})] == [("aaa1", UNSURE), ("aaa2", UNSURE)]
    assert [is_sure for *_, is_sure in fold.sums(0, 3)] == [False]
    fold.close()


def test_key_that_is_unsure_stays_so_after_more_records(path: Path) -> None:
    fold = Fold(path, "a")
    for place in (ONE, TWO):
        fold.add(place, 0, 2, [row("aaa1", 5, 0), row("aaa2", 5, 1)])
    fold.add(TWO, 0, 4, [row("aaa1", 6, 2), row("aaa2", None, 3)])
    assert [(entry.key, entry.known) for entry in fold.unseen(0, {"aaa"})] == [("aaa1", UNSURE), ("aaa2", UNSURE)]
    fold.close()


def test_truncate_removes_the_rows_of_its_table_that_were_written_before(path: Path) -> None:
    fold = Fold(path, "a")
    fold.add(ONE, 0, 2, [row("aaa1", 5, 0, 10), row("aaa2", 6, 1, 30)])
    fold.add(ONE, 1, 3, [row("aaa1", 8, 2, 10)])
    fold.truncate(0, 20)
    assert [list(fold.sums(table, 3)) for table in (0, 1)] == [[("aaa", 1, 6, True)], [("aaa", 1, 8, True)]]
    fold.close()


@pytest.mark.parametrize(("of", "kept"), [("a", []), ("b", [("aaa", 1, 5, True)])])
def test_truncate_removes_older_rows_that_other_partitions_add_later(path: Path, of: str, kept: list[object]) -> None:
    fold = Fold(path, "a")
    fold.truncate(0, 20)
    fold.truncate(0, 15)
    fold.close()
    fold = Fold(path, of)
    fold.add(TWO, 0, 1, [row("aaa1", 5, 0, 17)])
    assert list(fold.sums(0, 3)) == kept
    fold.add(TWO, 0, 2, [row("aaa1", 6, 1, 30)])
    assert list(fold.sums(0, 3)) == [("aaa", 1, 6, True)]
    fold.close()


def test_rows_that_were_asked_for_are_not_among_the_others(path: Path) -> None:
    fold = Fold(path, "a")
    fold.add(ONE, 0, 3, [row("aaa1", 5, 0), row("aaa2", 6, 1), row("bbb1", 7, 2)])
    assert fold.see(0, "aaa9") is None
    found = fold.see(0, "aaa1")
    assert found is not None
    assert (found.hash, fold.place(found.part), found.at) == (5, ONE, 0)
    assert [entry.key for entry in fold.unseen(0, {"aaa"})] == ["aaa2"]
    assert [entry.key for entry in fold.unseen(0, {"aaa", "bbb"})] == ["aaa1", "aaa2", "bbb1"]
    fold.close()


@pytest.mark.parametrize(("of", "kept"), [("a", 2), ("b", 0)])
def test_file_is_continued_by_the_same_audit_only(path: Path, of: str, kept: int) -> None:
    fold = Fold(path, "a")
    fold.add(ONE, 0, 2, [row("aaa1", 5, 1)])
    fold.close()
    again = Fold(path, of)
    assert (again.next_offset(ONE), len(list(again.sums(0, 3)))) == (kept, kept // 2)
    again.close()
