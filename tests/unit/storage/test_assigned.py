"""The records of an assignment: what they say, also after compaction, half read, and beside those of older workers."""

from collections.abc import Iterable
from dataclasses import replace

import orjson
from hypothesis import given
from hypothesis import strategies as st

from fencepost.storage import records
from fencepost.storage.assigned import changes, in_order
from fencepost.storage.change import Assignment, HeldBackWork, TaskId, WorkerAssignment
from fencepost.storage.fold import after, apply
from fencepost.storage.records import Encoded
from fencepost.storage.snapshot import ClusterSnapshot, SnapshotBuilder

IDS = ["i0", "i1", "i2", "i3"]
CONNECTORS = "abcd"
ITEMS = [(name, number) for name in CONNECTORS for number in (None, 0, 1)]


@st.composite
def assignments(draw: st.DrawFn, generation: int, series: int | None) -> Assignment:
    """Each connector and task is with one holder, or none. The work of an id may wait, even while it has other work."""
    holders = st.tuples(st.sampled_from(IDS), st.sampled_from([None, 1000, 2000]))
    present = draw(st.lists(holders, unique=True, min_size=1, max_size=5))
    held: dict[tuple[str, int | None], list[tuple[str, int | None]]] = {holder: [] for holder in present}
    for item in ITEMS:
        owner = draw(st.sampled_from([*present, None]))
        if owner is not None:
            held[owner].append(item)
    working = sorted(id_ for id_, until in present if until is None)
    waiting = [HeldBackWork(_share(id_, held[id_, until]), until) for id_, until in present if until is not None]
    return Assignment(generation, tuple(_share(id_, held[id_, None]) for id_ in working), in_order(waiting), series)


def _share(id_: str, items: Iterable[tuple[str, int | None]]) -> WorkerAssignment:
    connectors = tuple(sorted(name for name, number in items if number is None))
    tasks = tuple(sorted(TaskId(name, number) for name, number in items if number is not None))
    return WorkerAssignment(id_, f"http://{id_}:1", connectors, tasks)


@st.composite
def several(draw: st.DrawFn) -> list[Assignment]:
    """Return assignments that follow each other; one that an older worker reads, in one record, ends a series."""
    found: list[Assignment] = []
    for generation in range(1, 6):
        before = found[-1].series if found else None
        series = None if draw(st.sampled_from([False, False, True])) else before or generation
        found.append(draw(assignments(generation, series)))
    return found


def written(found: Iterable[Assignment]) -> list[list[Encoded]]:
    """Return the records of each change."""
    before: Assignment | None = None
    transactions = []
    for each in found:
        transactions.append([records.assignment(each)] if each.series is None else changes(before, each))
        before = each
    return transactions


def folded(log: Iterable[Encoded]) -> Assignment | None:
    return after(ClusterSnapshot(), log).assignment


@given(several())
def test_change_records_fold_into_each_assignment(found: list[Assignment]) -> None:
    builder, offset = SnapshotBuilder(), 0
    for each, transaction in zip(found, written(found), strict=True):
        for key, value in transaction:
            apply(builder, offset := offset + 1, key, value)
        assert builder.freeze().assignment == each


@given(several())
def test_each_change_continues_from_a_snapshot(found: list[Assignment]) -> None:
    snapshot = ClusterSnapshot()
    for each, transaction in zip(found, written(found), strict=True):
        snapshot = after(snapshot, transaction)
        assert snapshot.assignment == each


@given(several(), st.integers(0, 200), st.booleans())
def test_compacted_log_folds_into_the_same_assignment(
    found: list[Assignment], clean_to: int, has_tombstones: bool
) -> None:
    log = [record for transaction in written(found) for record in transaction]
    last = {key: offset for offset, (key, _) in enumerate(log)}
    kept = [
        (key, value)
        for offset, (key, value) in enumerate(log)
        if offset >= clean_to or (last[key] == offset and (value is not None or has_tombstones))
    ]
    assert folded(kept) == found[-1]


@given(several(), st.data())
def test_partly_read_change_does_not_alter_the_assignment(found: list[Assignment], data: st.DataObject) -> None:
    """A transaction may come in several answers of the broker, and what was read so far is published each time."""
    *before, last = written(found)
    builder, offset = SnapshotBuilder(), 0
    for key, value in (record for transaction in before for record in transaction):
        apply(builder, offset := offset + 1, key, value)
    frozen = builder.freeze().assignment
    for key, value in last[: data.draw(st.integers(0, len(last) - 1))]:
        apply(builder, offset := offset + 1, key, value)
        assert builder.freeze().assignment is frozen


def test_unchanged_work_of_a_worker_is_the_same_object() -> None:
    first = Assignment(1, (_share("i0", [("a", None), ("a", 0)]), _share("i1", [("b", None), ("b", 0)])), (), 1)
    second = replace(first, generation=2, workers=(first.workers[0], _share("i1", [("b", None)])))
    before = after(ClusterSnapshot(), changes(None, first))
    then = after(before, changes(before.assignment, second))
    assert before.assignment is not None
    assert then.assignment is not None
    assert then.assignment.workers[0] is before.assignment.workers[0]
    assert then.assignment.workers[1].tasks == ()


def test_change_records_grow_with_moved_connectors_only() -> None:
    many = [(f"c{n}", None) for n in range(5000)]
    first = Assignment(1, (_share("i0", many), _share("i1", [])), (), 1)
    second = Assignment(2, (_share("i0", many[1:]), _share("i1", many[:1])), (), 1)
    moved = changes(first, second)
    assert [key.decode() for key, _ in moved] == ["fencepost-placement-c0", "fencepost-assignment"]
    assert sum(len(key) + len(value or b"") for key, value in moved) < 300


OLD = Assignment(5, (_share("i0", [("a", None), ("a", 0)]),))
NEW = Assignment(6, (_share("i0", [("a", None)]), _share("i1", [("a", 0)])), (), 6)


def test_older_worker_reads_no_work_from_the_head_record() -> None:
    key, value = changes(OLD, NEW)[-1]
    assert key == b"fencepost-assignment"
    read = orjson.loads(value or b"")
    assert (read["generation"], read["workers"]) == (6, [])


def test_records_of_an_earlier_series_do_not_count_when_another_begins() -> None:
    """A leader of the older version has written one record in between, which was compacted away since."""
    earlier = changes(None, Assignment(3, (_share("i9", [("gone", None), ("a", 1)]),), (), 3))
    assert folded([*earlier, records.assignment(OLD)]) == OLD
    later = changes(OLD, NEW)
    assert folded([*earlier, records.assignment(OLD), *later]) == NEW
    assert folded([*(each for each in earlier if each[0] != b"fencepost-assignment"), *later]) == NEW


def test_single_record_assignment_replaces_one_of_several_records() -> None:
    one = records.assignment(replace(OLD, generation=7))
    assert folded([*changes(OLD, NEW), one]) == replace(OLD, generation=7)
