"""What a member commits, and where it goes, after the log that it reads was cut below its position."""

from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.kafka.read.group_batches import BatchFetcher
from fencepost.kafka.read.group_input import GroupInput
from fencepost.kafka.read.plan_reader import Read
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.position import GroupOffset, LogPosition
from fencepost.record import TopicPartition

PLACE = TopicPartition("t", 0)
ID = "AAAAAAAAAAAAAAAAAAAAAQ"


class Member:
    """At offset 1000, of which 100 records are not committed, when it goes on at 700, where the log was cut."""

    def __init__(self) -> None:
        reader: Any = SimpleNamespace(
            known_ends=dict, read=lambda *_: Read(), assign=len, unassign=len, knows_topics=True
        )
        conf = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "reconnect.backoff.ms": 10_000}
        assignee: Any = object()
        self.input = GroupInput(conf, ["t"], assignee, fetcher=lambda of: BatchFetcher(of, reader))
        self.committed: list[GroupOffset] = []
        self.assignment: Any = self.input._assignment
        self.fetcher: Any = self.assignment.fetcher
        self.assignment.ensure_member = lambda: None
        self.assignment.client.commit = self._commit
        self.assignment.begins = {PLACE: 900}
        self.fetcher._next = {PLACE: LogPosition(1000, ID, 5)}
        self.fetcher._resets.maybe_reset = lambda _: {PLACE: LogPosition(700, ID, 4)}
        self.fetcher._read(0.0, 1)

    def _commit(self, offsets: list[GroupOffset]) -> dict[TopicPartition, int]:
        self.committed += offsets
        return {TopicPartition(each.topic, each.partition): each.offset for each in offsets}

    def polls(self, fetched: Fetched) -> None:
        self.fetcher.chunks = lambda *_: iter([fetched])
        self.input.poll(0.0, 1)


def test_offset_of_the_log_before_is_not_committed_after_a_cut() -> None:
    """It would have no leader epoch, so that the next start would not see the cut."""
    member = Member()
    assert member.input.commit({PLACE: 1000}) == {}
    assert member.input.commit({PLACE: 700}) == {PLACE: 700}
    member.polls(Fetched([PLACE], [700], [1], [None], [b"v"]))
    assert member.input.commit({PLACE: 701}) == {PLACE: 701}


@pytest.mark.parametrize(("end", "committed"), [(900, {}), (1000, {PLACE: 1000})])
def test_offset_after_a_cut_is_committed_once_the_log_has_that_many_markers(
    end: int, committed: dict[TopicPartition, int]
) -> None:
    member = Member()
    member.polls(Fetched(ends={PLACE: end}))
    assert member.input.commit({PLACE: 1000}) == committed


@pytest.mark.parametrize(("wanted", "goes_to"), [(900, 700), (500, 500)])
def test_flush_that_fails_after_a_cut_leads_to_no_later_offset(wanted: int, goes_to: int) -> None:
    """The sink continues from what is safe, which is of the log before."""
    member = Member()
    member.input.seek({PLACE: wanted})
    assert member.fetcher._next[PLACE].offset == goes_to
    assert member.assignment.begins == {PLACE: goes_to}
