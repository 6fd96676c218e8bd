"""Messages of pgoutput become whole transactions, and what is in Kafka already is skipped."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api import FatalError, SourceRecord
from fencepost.builtin.postgres.source.changes import ChangePlace, Changes
from fencepost.builtin.postgres.source.progress import Position
from fencepost.postgres.pgoutput import Begin, Commit, Insert, Message, Relation


class Names:
    """Makes records whose values say which change they are of."""

    def relation(self, relation: Relation) -> None: ...

    def begin(self, place: ChangePlace) -> Sequence[SourceRecord]:
        return ()

    def end(self, place: ChangePlace) -> Sequence[SourceRecord]:
        return ()

    def change(self, change: Any, place: ChangePlace) -> Sequence[SourceRecord]:
        value = change.prefix if isinstance(change, Message) else change.new[0]
        return [SourceRecord({}, None, "t", value)]

    def message(self, message: Message, lsn: int, last: Position) -> Sequence[SourceRecord]:
        return [SourceRecord({}, None, "t", message.prefix)] if message.prefix else []

    def without_written(self, changes: Sequence[SourceRecord]) -> Sequence[SourceRecord]:
        return [one for one in changes if one.value not in self.written]

    written: frozenset[str] = frozenset()


def changes(position: Position = Position(100)) -> Changes:  # noqa: B008
    return Changes(Names(), position, log_end=400)


def feed(made: Changes, commit_lsn: int, values: Sequence[str], *, ends: bool = True) -> None:
    """Feed a transaction whose changes are at the LSNs before that of its commit; it ends ten bytes after that."""
    made.feed(commit_lsn - len(values), Begin(commit_lsn, 7, 9))
    for number, value in enumerate(values):
        made.feed(commit_lsn - len(values) + number, Insert(1, [value]))
    if ends:
        made.feed(commit_lsn + 10, Commit(commit_lsn, commit_lsn + 10, 7))


def values(records: Sequence[SourceRecord]) -> list[str]:
    return [record.value for record in records]


def test_only_whole_transactions_are_whole() -> None:
    made = changes()
    feed(made, 200, ["a", "b"])
    feed(made, 300, ["c"], ends=False)
    assert (values(made.take_whole()), values(made.part), made.is_between) == (["a", "b"], ["c"], False)
    assert made.position == Position(210, 9, 7)
    made.feed(310, Commit(300, 310, 8))
    assert (values(made.take_whole()), made.part, made.position) == (["c"], [], Position(310, 9, 8))


def test_part_that_was_taken_is_not_taken_again_with_the_whole() -> None:
    made = changes()
    feed(made, 200, ["a"], ends=False)
    assert values(made.take_part()) == ["a"]
    made.feed(199, Insert(1, ["b"]))
    made.feed(210, Commit(200, 210, 7))
    assert values(made.take_whole()) == ["b"]


@pytest.mark.parametrize(("commit_lsn", "is_skipped"), [(90, True), (99, True), (100, False), (150, False)])
def test_transaction_that_was_committed_before_the_position_is_skipped(commit_lsn: int, is_skipped: bool) -> None:
    made = changes(Position(100))
    feed(made, commit_lsn, ["a"])
    assert values(made.take_whole()) == ([] if is_skipped else ["a"])
    assert made.position.lsn == (100 if is_skipped else commit_lsn + 10)


def test_changes_that_debezium_has_written_of_a_transaction_are_skipped_once() -> None:
    made = changes(Position(100, 9, processed_lsn=198))
    feed(made, 200, ["a", "b"])  # at 198 and 199
    feed(made, 300, ["c"])
    assert values(made.take_whole()) == ["b", "c"]


@pytest.mark.parametrize(
    ("count", "written", "left"),
    [(1, "", ["c", "d", "e"]), (2, "", ["d", "e"]), (3, "", ["e"]), (1, "bce", ["d", "e"])],
)
def test_rows_of_one_record_of_the_log_that_debezium_lacks_are_written(
    count: int, written: str, left: list[str]
) -> None:
    """It says how many of them are in Kafka since 3.7; before, that the first one is, and the topic has the others."""
    writer = Names()
    writer.written = frozenset(written)
    made = Changes(writer, Position(100, 9, processed_lsn=180, processed_count=count), log_end=400)
    made.feed(170, Begin(200, 7, 9))
    for lsn, value in ((170, "a"), (180, "b"), (180, "c"), (180, "d"), (190, "e")):
        made.feed(lsn, Insert(1, [value]))
    made.feed(210, Commit(200, 210, 7))
    assert values(made.take_whole()) == left


def test_transaction_after_the_one_in_which_debezium_stopped_is_whole() -> None:
    made = changes(Position(100, 8, processed_lsn=198))
    feed(made, 200, ["a", "b"])
    assert values(made.take_whole()) == ["a", "b"]


def test_records_of_the_last_change_that_debezium_may_lack_are_written() -> None:
    """A change of a key has three, and one offset."""

    class Several(Names):
        def change(self, change: Any, place: ChangePlace) -> Sequence[SourceRecord]:
            return [SourceRecord({}, None, "t", f"{change.new[0]}{number}") for number in range(3)]

    writer = Several()
    for written, left in (("", ["b1", "b2"]), ("b1", ["b2"])):
        writer.written = frozenset([written])
        made = Changes(writer, Position(100, 9, processed_lsn=199), log_end=400)
        feed(made, 200, ["a", "b"])
        assert values(made.take_whole()) == left


def test_idle_position_moves_between_transactions_only() -> None:
    made = changes()
    made.move_to(150)
    assert made.position.lsn == 150
    made.move_to(120)
    assert made.position.lsn == 150
    feed(made, 200, ["a"], ends=False)
    made.move_to(500)
    assert made.position.lsn == 150


def outside(lsn: int, prefix: str) -> tuple[int, Message]:
    return lsn, Message(lsn, False, prefix, b"")


def test_message_in_no_transaction_is_whole_and_the_position_moves_to_it() -> None:
    made = changes()
    made.feed(*outside(100, "before"))
    made.feed(*outside(150, "m"))
    assert (values(made.take_whole()), made.part, made.is_between) == (["m"], [], True)
    assert made.position == Position(150)
    feed(made, 150, ["a"])  # its commit begins where the message ends
    made.feed(*outside(180, ""))
    assert (values(made.take_whole()), made.position) == (["a"], Position(180, 9, 7))


@pytest.mark.parametrize("start", [Position(100, 9, 5, 1, 198), Position(100, 9, processed_lsn=198)])
def test_message_before_a_transaction_in_parts_keeps_the_place_in_it(start: Position) -> None:
    """Write it: an offset that is before a message says that it was not written, also one within a transaction."""
    made = changes(start)
    made.feed(*outside(199, "m"))
    assert made.position == read_back(replace(start, lsn=199))
    feed(made, 200, ["a", "b"])
    assert values(made.take_whole()) == ["m", "b"]


@pytest.mark.parametrize(("kind", "left"), [(0, ["c", "d", "e"]), (1, ["d", "e"])])
def test_rows_at_the_lsn_of_a_message_are_written_after_it(kind: int, left: list[str]) -> None:
    """A row begins where a message before it ends, and Debezium counts rows only: 0 is the offset of the message."""
    made = changes(Position(100, 9, processed_lsn=180, processed_count=kind))
    made.feed(170, Begin(200, 7, 9))
    made.feed(170, Insert(1, ["a"]))
    made.feed(180, Message(180, True, "b", b""))
    for lsn, value in ((180, "c"), (180, "d"), (190, "e")):
        made.feed(lsn, Insert(1, [value]))
    made.feed(210, Commit(200, 210, 7))
    assert values(made.take_whole()) == left


class Server:
    """Sends transactions from a position on, as a slot does: each change has an LSN, which several may share.

    Before some comes a message in none. It is sent if it begins at the position or after it; its LSN is its end.
    """

    def __init__(self, sizes: Sequence[int], shared: int) -> None:
        self.commits = [1000 * number for number in range(1, len(sizes) + 1)]
        self.sizes, self._shared = sizes, shared

    @property
    def values(self) -> list[str]:
        return [value for _, message in self.messages(0) for value in _values(message)]

    def messages(self, lsn: int) -> Iterator[tuple[int, Any]]:
        for number, (commit_lsn, size) in enumerate(zip(self.commits, self.sizes, strict=True)):
            if size % 3 and commit_lsn - 935 >= lsn:
                yield outside(commit_lsn - 930, f"{number}")
            if commit_lsn < lsn:
                continue
            yield commit_lsn - 900, Begin(commit_lsn, 7, number)
            for change in range(size):
                yield commit_lsn - 900 + change // self._shared, Insert(1, [f"{number}:{change}"])
            yield commit_lsn + 10, Commit(commit_lsn, commit_lsn + 10, 7)


def _values(message: Any) -> list[str]:
    return message.new if isinstance(message, Insert) else [message.prefix] if isinstance(message, Message) else []


@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=5),
    shared=st.integers(1, 4),
    crashes=st.lists(st.integers(0, 40), max_size=5),
    acts=st.lists(st.sampled_from(["wait", "commit", "idle"]), min_size=1, max_size=40),
)
def test_split_transactions_are_whole_and_in_order_after_any_crashes(
    sizes: Sequence[int], shared: int, crashes: Sequence[int], acts: Sequence[str]
) -> None:
    server, position, written = Server(sizes, shared), Position(0), list[str]()
    turn = itertools.cycle(acts)
    for until in (*crashes, None):  # how many messages come until the crash
        made = changes(position)
        for lsn, message in itertools.islice(server.messages(position.lsn), until):
            made.feed(lsn, message)
            act = next(turn)
            if act == "idle":  # a keep-alive, which counts between two transactions only
                made.move_to(lsn + 50)
            if act == "commit" and made.whole:
                written, position = written + values(made.take_whole()), read_back(made.position)
            elif act == "commit" and made.can_split:
                part, position = made.split()
                written, position = written + values(part), read_back(position)
    written += values(made.take_whole())
    assert written == server.values


def read_back(position: Position) -> Position:
    found = Position.of_offset(position.offset())
    assert found == position
    return found


def test_transaction_that_differs_from_the_one_that_was_split_is_refused() -> None:
    split = Position(100, index=2, processed_lsn=199)
    feed(changes(split), 200, ["a", "b"])
    with pytest.raises(FatalError, match="Was the publication made again"):
        feed(changes(split), 200, ["b"])
    with pytest.raises(FatalError, match="Was the publication made again"):
        feed(changes(split), 200, ["a", "b", "c"])


def test_idle_position_stays_until_the_one_that_debezium_left_has_come() -> None:
    start = Position(100, 9, processed_lsn=198)
    made = changes(start)
    made.move_to(150)
    assert made.position == start
    feed(made, 200, ["a", "b"])
    assert values(made.take_whole()) == ["b"]


def test_idle_position_moves_where_debezium_has_left_no_transaction() -> None:
    made = changes(
        Position(100, 9, processed_lsn=100)
    )  # as its heartbeat after a commit, or a change that begins there
    made.move_to(399)
    made.move_to(400)
    assert made.position == Position(400, 9)


def test_idle_position_stays_until_the_split_transaction_has_come() -> None:
    made = changes(Position(100, index=1, processed_lsn=198))
    made.move_to(150)
    feed(made, 200, ["a", "b"])
    assert values(made.take_whole()) == ["b"]
