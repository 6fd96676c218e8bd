"""The task's record of its source offsets."""

from fencepost.task.offsets import OffsetBook, partition_key

A, B = {"f": "a"}, {"f": "b"}


def test_what_was_committed_before_is_known() -> None:
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


def test_records_without_an_offset_move_nothing() -> None:
    book = OffsetBook([(A, {"n": 1})])
    book.add([(A, None)])
    assert book.to_write() == []


def test_pending_offsets_can_be_dropped() -> None:
    book = OffsetBook([(A, {"n": 1})])
    book.add([(A, {"n": 2})])
    book.drop_pending()
    book.seal()
    book.committed()
    assert book.offset(A) == {"n": 1}


def test_partitions_are_the_same_whatever_the_order_of_their_items() -> None:
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


def test_update_offsets_that_change_nothing_write_nothing() -> None:
    book = OffsetBook([(A, {"n": 1})])
    book.updated_by({partition_key(A): {"n": 1}, partition_key(B): None})
    book.updated_by({})
    book.updated_by(None)
    assert book.to_write() == []


def test_stored_offsets_are_compared_with_what_this_incarnation_committed() -> None:
    book = OffsetBook([(A, {"n": 1})])
    book.add([(A, {"n": 2})])
    book.seal()
    book.committed()
    assert not book.differs_from([(A, {"n": 2})])
    assert book.differs_from([(A, {"n": 1})])
    assert book.differs_from([])


def test_progress_of_other_tasks_of_the_connector_is_no_difference() -> None:
    book = OffsetBook([(A, {"n": 1}), (B, {"n": 1})])
    book.add([(A, {"n": 2})])
    book.seal()
    book.committed()
    assert not book.differs_from([(A, {"n": 2}), (B, {"n": 7})])


def test_a_removed_offset_that_is_back_is_a_difference() -> None:
    book = OffsetBook([(A, {"n": 1})])
    book.updated_by({partition_key(A): None})
    book.seal()
    book.committed()
    assert not book.differs_from([])
    assert book.differs_from([(A, {"n": 1})])


def test_an_update_is_compared_with_what_the_commits_under_way_will_leave() -> None:
    book = OffsetBook([({"f": 1}, {"at": 1})])
    key = partition_key({"f": 1})
    book.add([({"f": 1}, {"at": 2})])
    book.seal()
    book.updated_by({key: {"at": 2}})
    assert book.to_write() == []
    book.updated_by({key: {"at": 1}})
    assert book.to_write() == [({"f": 1}, {"at": 1})]
