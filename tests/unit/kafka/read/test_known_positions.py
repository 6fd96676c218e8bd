"""What is committed with a group's offsets, and where a member starts that reads them."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TopicPartition as ClientPartition

from fencepost.kafka.group.group_offsets import Contribution
from fencepost.kafka.read.batch_reader import BatchReader
from fencepost.kafka.read.fetched_queue import Unread
from fencepost.kafka.read.group_batches import BatchFetcher
from fencepost.kafka.read.known_positions import (
    KnownPositions,
    ReadLog,
    StartPositions,
    assigned_log,
    committed_position,
)
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.position import GroupOffset, LogPosition
from fencepost.record import TopicPartition

PLACE = TopicPartition("t", 0)
ID, OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
NOTE = f'{{"fencepost.topic_id":"{ID}"}}'


def known(*positions: LogPosition) -> KnownPositions:
    """Return what is known after reading from the first position to the others."""
    made = KnownPositions()
    made.move({PLACE: positions[0]})
    for position in positions[1:]:
        made.read_to({PLACE: position})
    return made


@pytest.mark.parametrize(
    ("positions", "offsets"),
    [
        ([LogPosition(10, ID, 5)], range(10, 11)),
        ([LogPosition(10, ID, 5), LogPosition(20, ID, 5), LogPosition(30, ID, 5)], range(10, 31)),
        ([LogPosition(10), LogPosition(20, ID, 5), LogPosition(30, ID, 5)], range(20, 31)),
        ([LogPosition(10, ID, 4), LogPosition(20, ID, 4), LogPosition(30, ID, 5)], range(30, 31)),
        ([LogPosition(10, OTHER_ID, 5), LogPosition(20, ID, 5)], range(20, 21)),
        ([LogPosition(10, ID, 5), LogPosition(20, ID)], range(0)),
        ([LogPosition(10, "", 5), LogPosition(20, "", 5)], range(0)),
    ],
)
def test_leader_epoch_is_committed_where_it_and_the_topic_are_known(
    positions: list[LogPosition], offsets: range
) -> None:
    committed = {offset: known(*positions).to_commit(PLACE, offset) for offset in range(40)}
    assert {offset for offset, each in committed.items() if each.leader_epoch == 5} == set(offsets)
    assert {each for each in committed.values() if each.leader_epoch == 5} == {
        GroupOffset(*PLACE, offset, NOTE, 5) for offset in offsets
    }
    assert all(each == GroupOffset(*PLACE, n) for n, each in committed.items() if each.leader_epoch != 5)


def test_offset_past_markers_is_committed_with_the_end_of_the_records_read() -> None:
    read = known(LogPosition(10, ID, 5), LogPosition(20, ID, 5))
    read.read_past({PLACE: 23})
    committed = read.to_commit(PLACE, 23)
    assert assigned_log(committed) == ReadLog(23, ID, 5, 20)
    assert committed.leader_epoch == -1  # a marker may have a newer epoch
    assert read.to_commit(PLACE, 24) == GroupOffset(*PLACE, 24)
    read.forget([PLACE])
    assert read.to_commit(PLACE, 23) == GroupOffset(*PLACE, 23)


def test_offset_after_a_rewind_is_committed_without_the_epoch_of_markers() -> None:
    """A sink went back into an older leader's epoch, and then to an offset of its own."""
    read = known(LogPosition(10, ID, 5), LogPosition(20, ID, 5))
    read.read_past({PLACE: 23})
    read.jump({PLACE: 7})
    read.read_to({PLACE: LogPosition(8, ID, 4)})
    read.jump({PLACE: 15})
    assert read.to_commit(PLACE, 15) == GroupOffset(*PLACE, 15)


def test_offset_is_committed_after_a_second_reset_without_records_between() -> None:
    positions = known(LogPosition(10, ID, 5))
    positions.go_back({PLACE: 0})
    positions.move({PLACE: LogPosition(0)})
    assert positions.commits({PLACE: 10}) == []
    positions.move({PLACE: LogPosition(7)})
    assert positions.commits({PLACE: 7}) == [GroupOffset(*PLACE, 7)]
    positions.move({PLACE: LogPosition(3)})
    assert positions.commits({PLACE: 7}) == []


def test_topic_id_and_epoch_are_read_from_metadata_signed_by_a_producer() -> None:
    signed = Contribution("a-stream", 7, 0).to_metadata(f'{{"fencepost.topic_id":"{ID}"}}')
    assert assigned_log(GroupOffset(*PLACE, 15, signed, 5)) == ReadLog(15, ID, 5, 15)


@pytest.mark.parametrize("read_to", ["[-1,4]", "[16,4]", '["7",4]', "null", "[1]", "7"])
def test_recorded_end_of_reading_counts_only_below_the_offset(read_to: str) -> None:
    note = f'{{"fencepost.topic_id":"{ID}","fencepost.read_to":{read_to}}}'
    assert assigned_log(GroupOffset(*PLACE, 15, note, 5)) == ReadLog(15, ID, 5, 15)


@pytest.mark.parametrize(
    ("note", "epoch"),
    [(NOTE, -1), ("", 5), ('{"fencepost.topic_id":"x"}', 5), ('{"fencepost.topic_id":7}', 5)],
)
def test_offset_without_a_topic_id_and_an_epoch_identifies_no_log(note: str, epoch: int) -> None:
    assert assigned_log(GroupOffset(*PLACE, 15, note, epoch)) is None


def test_leader_epochs_are_still_known_after_reading_again() -> None:
    read = known(LogPosition(10, ID, 5), LogPosition(30, ID, 5))
    read.move({PLACE: LogPosition(20, ID, 5)})
    read.read_to({PLACE: LogPosition(25, ID, 5)})
    assert read.at(PLACE, 28) == LogPosition(28, ID, 5)


def test_leader_epochs_are_forgotten_when_reading_continues_elsewhere() -> None:
    read = known(LogPosition(10, ID, 5), LogPosition(30, ID, 5))
    read.move({PLACE: LogPosition(5, ID)})
    assert read.at(PLACE, 20) is None
    read.read_to({PLACE: LogPosition(20, ID, 6)})
    assert read.at(PLACE, 10) is None
    assert read.at(PLACE, 20) == LogPosition(20, ID, 6)


@pytest.mark.parametrize(
    ("committed", "position"),
    [
        (GroupOffset(*PLACE, 7, NOTE, 5), LogPosition(7, ID, 5)),
        (GroupOffset(*PLACE, 7, NOTE), LogPosition(7)),  # as mirrors of groups commit it in another cluster
        (GroupOffset(*PLACE, 7, "", 5), LogPosition(7)),
        (GroupOffset(*PLACE, 7, "[1]", 5), LogPosition(7)),
        (GroupOffset(*PLACE, 7, '{"fencepost.topic_id":"no id"}', 5), LogPosition(7)),
        (GroupOffset(*PLACE, 7, '{"fencepost.topic_id":1}', 5), LogPosition(7)),
    ],
)
def test_committed_leader_epoch_is_used_only_with_a_topic_id(committed: GroupOffset, position: LogPosition) -> None:
    assert committed_position(committed) == position


class Member:
    """A fetcher that starts at a committed offset. Its reader reads nothing."""

    def __init__(self, committed: Any) -> None:
        consumer = SimpleNamespace(committed=lambda asked, timeout: [committed], poll=lambda _: None)
        client: Any = SimpleNamespace(conf={}, consumer=consumer, error=None, pause=lambda _: None)
        self.starts = StartPositions(client, (), None)
        begins = self.starts.stored([PLACE], None)
        assignment: Any = SimpleNamespace(
            client=client, starts=self.starts, begins=begins, places=begins.keys(), paused=frozenset()
        )
        self.reader = BatchReader({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}, Unread())
        self.fetcher = assignment.fetcher = BatchFetcher(assignment, self.reader)
        self.fetcher.starts([PLACE], self.starts.committed)
        self.fetcher.begin(begins)


def test_first_fetch_has_the_leader_epoch_of_the_committed_offset() -> None:
    member = Member(ClientPartition(*PLACE, 1000, NOTE, 5))
    assert member.reader._positions.at[PLACE] == (1000, 5)
    assert member.reader.topic_id(PLACE) == ID


def test_first_fetch_has_no_leader_epoch_when_the_topic_is_not_known() -> None:
    member = Member(ClientPartition(*PLACE, 1000, "", 5))
    assert member.reader._positions.at[PLACE] == (1000, -1)


@pytest.mark.parametrize("by_name", [False, True])
def test_topic_id_is_committed_only_if_records_were_fetched_by_id(by_name: bool) -> None:
    """Brokers of Kafka 3.0 are asked by name: the records may be of a topic that was created again."""
    member = Member(ClientPartition(*PLACE, 1000, NOTE, 5))
    member.reader._requests.has_named_topics = by_name
    member.fetcher._record_positions(Fetched(epochs={PLACE: (1010, 6)}))
    expected = GroupOffset(*PLACE, 1010) if by_name else GroupOffset(*PLACE, 1010, NOTE, 6)
    assert member.starts.known.to_commit(PLACE, 1010) == expected


def test_leader_epochs_are_still_known_after_a_look_at_the_offsets_of_the_group() -> None:
    """As a sink takes one after a flush that failed."""
    note = f'{{"fencepost.topic_id":"{ID}"}}'
    consumer = SimpleNamespace(committed=lambda asked, timeout: [ClientPartition(*PLACE, 1000, note, 5)])
    client: Any = SimpleNamespace(conf={}, consumer=consumer)
    starts = StartPositions(client, (), None)
    starts.known.move({PLACE: LogPosition(1010, ID, 5)})
    starts.stored([PLACE], None)
    assert starts.known.at(PLACE, 1010) == LogPosition(1010, ID, 5)


def test_offset_of_a_former_topic_is_none_until_another_is_committed() -> None:
    """A sink looks after a flush that failed: it would go on there, past records that it has only put."""
    answer = ClientPartition(*PLACE, 1000, NOTE, 5)
    client: Any = SimpleNamespace(conf={}, consumer=SimpleNamespace(committed=lambda asked, timeout: [answer]))
    starts = StartPositions(client, (), None)
    assert starts.stored([PLACE], None) == {PLACE: 1000}
    starts.drop(PLACE)
    assert (starts.stored([PLACE], None), starts.committed) == ({}, {})
    answer = ClientPartition(*PLACE, 1000, NOTE, 6)
    assert starts.stored([PLACE], None) == {PLACE: 1000}
