"""The task's record of its source offsets."""

import pytest

from fencepost.api import FatalError, SourceRecord
from fencepost.record import Batch, partition_key
from fencepost.task.source.offsets import OffsetBook, checked_update

A, B = {"f": "a"}, {"f": "b"}


def test_stored_offsets_are_known_at_the_start() -> None:
    book = OffsetBook([(A, {"n": 1}), (B, {"n": 2})])
    assert book.offset(A) == {"n": 1}
    assert book.offset({"f": "c"}) == {}
    assert book.all_committed() == [(A, {"n": 1}), (B, {"n": 2})]
    assert book.to_write() == []


def test_the_last_offset_of_a_partition_is_written_and_counts_once_committed() -> None:
    book = OffsetBook([(A, {"n": 1})])
    book.add([(A, {"n": 2}), (B, {"n": 5}), (A, {"n": 3})])
    assert book.to_write() == [(A, {"n": 3}), (B, {"n": 5})]
    assert book.offset(A) == {"n": 1}
    book.seal()
    book.committed()
    assert book.offset(A) == {"n": 3}
    assert book.to_write() == []


def test_records_without_an_offset_move_no_offset() -> None:
    book = OffsetBook([(A, {"n": 1})])
    book.add([(A, None)])
    assert book.to_write() == []


@pytest.mark.parametrize("files", [["a", "a", "a"], ["a", "b", "a"]])
def test_the_last_record_that_has_an_offset_counts(files: list[str]) -> None:
    offsets = [{"n": 1}, {"n": 2}, None]
    records = [SourceRecord({"f": f}, o, "t", "v") for f, o in zip(files, offsets, strict=True)]
    book = OffsetBook()
    for batch in Batch.of_records(records):
        book.add(batch.last_offsets())
    assert {p["f"]: o["n"] for p, o in book.to_write() if o} == ({"a": 1, "b": 2} if "b" in files else {"a": 2})


def test_pending_offsets_can_be_dropped() -> None:
    book = OffsetBook([(A, {"n": 1})])
    book.add([(A, {"n": 2})])
    book.drop_pending()
    book.seal()
    book.committed()
    assert book.offset(A) == {"n": 1}


def test_partitions_are_equal_in_any_order_of_their_items() -> None:
    book = OffsetBook([({"x": 1, "y": 2}, {"n": 1})])
    assert book.offset({"y": 2, "x": 1}) == {"n": 1}


def test_update_offsets_changes_adds_and_removes() -> None:
    book = OffsetBook([(A, {"n": 1})])
    book.add([(B, {"n": 1})])
    book.updated_by({partition_key(A): None, partition_key(B): {"n": 9}, partition_key({"f": "c"}): {"n": 0}})
    assert {p["f"]: o for p, o in book.to_write()} == {"a": None, "b": {"n": 9}, "c": {"n": 0}}
    book.seal()
    book.committed()
    assert book.offset(A) == {}


def test_update_offsets_without_changes_are_not_written() -> None:
    book = OffsetBook([(A, {"n": 1})])
    book.updated_by({partition_key(A): {"n": 1}})
    book.updated_by({})
    assert book.to_write() == []
    assert not book.has_changes


def test_tombstone_for_an_unknown_partition_is_written_once() -> None:
    """Another task of the connector may have committed it since this one began."""
    book = OffsetBook()
    for _ in range(2):
        book.updated_by({partition_key(B): None})
        assert book.to_write() == [(B, None)]
        assert book.has_changes
        book.seal()
        book.committed()
        book.updated_by({partition_key(B): None})
        assert not book.has_changes
        book.updated_by({partition_key(B): {"n": 1}})  # and it comes back
        book.seal()
        book.committed()


def test_offset_that_returns_to_its_committed_value_is_no_change() -> None:
    book = OffsetBook([(A, {"n": 1})])
    book.add([(A, {"n": 2})])
    assert book.has_changes
    book.add([(A, {"n": 1})])
    assert not book.has_changes
    book.seal()
    book.add([(A, {"n": 2})])
    assert book.has_changes


def test_an_author_may_change_an_offset_that_was_given_before() -> None:
    book, offset = OffsetBook(), {"n": 1}
    book.add([(A, offset)])
    book.updated_by(checked_update({partition_key(B): offset}, "c-0"))
    book.seal()
    book.committed()
    offset["n"] = 2
    assert (book.offset(A), book.offset(B)) == ({"n": 1}, {"n": 1})
    book.updated_by(checked_update({partition_key(B): offset}, "c-0"))
    assert book.to_write() == [(B, {"n": 2})]


def test_a_partition_may_be_given_in_any_order_of_its_items() -> None:
    book = OffsetBook([({"x": 1, "y": 2}, {"n": 1})])
    book.updated_by(checked_update({(("y", 2), ("x", 1)): {"n": 2}}, "c-0"))
    assert book.to_write() == [({"x": 1, "y": 2}, {"n": 2})]


@pytest.mark.parametrize("update", [[], "text", {"text": {}}, {1: {}}, {(("f", "a"),): [1]}, {(("f", "a"),): 7}])
def test_malformed_offset_update_is_refused_with_the_valid_forms(update: object) -> None:
    with pytest.raises(FatalError, match=r"(?s)update_offsets of task c-0 .*return None, or a mapping"):
        checked_update(update, "c-0")


def test_stored_offsets_are_compared_with_those_of_this_incarnation() -> None:
    book = OffsetBook([(A, {"n": 1})])
    book.add([(A, {"n": 2})])
    book.seal()
    book.committed()
    assert not book.differs_from([(A, {"n": 2})])
    assert book.differs_from([(A, {"n": 1})])
    assert book.differs_from([])


def test_offsets_of_other_tasks_are_not_a_difference() -> None:
    book = OffsetBook([(A, {"n": 1}), (B, {"n": 1})])
    book.add([(A, {"n": 2})])
    book.seal()
    book.committed()
    assert not book.differs_from([(A, {"n": 2}), (B, {"n": 7})])


def test_removed_offset_that_reappears_is_a_difference() -> None:
    book = OffsetBook([(A, {"n": 1})])
    book.updated_by({partition_key(A): None})
    book.seal()
    book.committed()
    assert not book.differs_from([])
    assert book.differs_from([(A, {"n": 1})])


def test_update_is_compared_with_offsets_of_commits_under_way() -> None:
    book = OffsetBook([({"f": 1}, {"at": 1})])
    key = partition_key({"f": 1})
    book.add([({"f": 1}, {"at": 2})])
    book.seal()
    book.updated_by({key: {"at": 2}})
    assert book.to_write() == []
    book.updated_by({key: {"at": 1}})
    assert book.to_write() == [({"f": 1}, {"at": 1})]


ONE, TRUE, FLOAT = {"p": 1}, {"p": True}, {"p": 1.0}


def test_partitions_with_different_json_types_are_different() -> None:
    book = OffsetBook([(ONE, {"n": 1}), (TRUE, {"n": 2}), (FLOAT, {"n": 3})])
    assert [book.offset(p) for p in (ONE, TRUE, FLOAT)] == [{"n": 1}, {"n": 2}, {"n": 3}]
    book.add([(ONE, {"n": 4}), (TRUE, {"n": 5})])
    assert [repr(p) for p, _ in book.to_write()] == [repr(ONE), repr(TRUE)]


def test_update_does_not_apply_to_a_partition_of_another_json_type() -> None:
    book = OffsetBook([(TRUE, {"n": 1})])
    book.updated_by(checked_update({partition_key(ONE): {"n": 1}}, "c-0"))
    assert [(repr(p), o) for p, o in book.to_write()] == [(repr(ONE), {"n": 1})]


def test_offset_of_another_json_type_is_a_change() -> None:
    book = OffsetBook([(A, {"n": 1})])
    book.updated_by(checked_update({partition_key(A): {"n": True}}, "c-0"))
    assert book.has_changes
    book.seal()
    book.committed()
    assert book.differs_from([(A, {"n": 1})])
    assert not book.differs_from([(A, {"n": True})])
