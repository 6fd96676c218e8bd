"""Where the partitions that a member is assigned begin."""

from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.kafka.read.assignment import AssignedPartitions
from fencepost.kafka.read.known_positions import Restart
from fencepost.kafka.value.position import GroupOffset
from fencepost.record import TopicPartition

PLACE = TopicPartition("t", 0)
Offsets = Mapping[TopicPartition, int]


class Assignee:
    """Begins at `wanted`, if that is given. Notes the offsets that it gets."""

    def __init__(self, wanted: int | None) -> None:
        self._wanted = {} if wanted is None else {PLACE: wanted}
        self.got: list[Offsets] = []

    def assigned(self, positions: Offsets, fresh: Collection[TopicPartition]) -> Offsets:
        self.got.append(dict(positions))
        return self._wanted

    def revoked(self, partitions: Collection[TopicPartition]) -> None: ...

    def lost(self, partitions: Collection[TopicPartition]) -> None: ...


def begun(assignee: Assignee, cut_at: int, read_to: int = 1000) -> list[Offsets]:
    """Return where a fetcher begins that finds a log cut below the group's offset of 1000.

    Only a beginning at the cut is a restart.
    """
    note = f'{{"fencepost.topic_id":"AAAAAAAAAAAAAAAAAAAAAQ","fencepost.read_to":[{read_to},5]}}'
    begins: list[Offsets] = []
    client = SimpleNamespace(
        errors_kept=nullcontext, is_leaving=False, membership=lambda: None, assign=lambda placed: None
    )
    starts: Any = SimpleNamespace(
        stored=lambda *_: {PLACE: 1000},
        committed={PLACE: GroupOffset(*PLACE, 1000, note)},
        reset=lambda _: 0,
        restarts={},
    )
    fetcher = SimpleNamespace(starts=lambda *_: {PLACE: cut_at}, begin=begins.append)
    make: Callable[..., Any] = lambda _: fetcher  # noqa: E731
    assignment = AssignedPartitions(client, starts, assignee, make)  # type: ignore[arg-type]
    assignment.take(None, [SimpleNamespace(topic="t", partition=0)])
    assert assignment.begins == begins[0]
    is_at_cut = begins[0] == {PLACE: cut_at}
    assert starts.restarts == ({PLACE: Restart(cut_at, is_cut=True)} if is_at_cut else {})
    return begins


@pytest.mark.parametrize(("wanted", "begin"), [(None, 700), (1000, 700), (500, 500)])
def test_cut_log_is_read_from_the_cut_or_an_earlier_wanted_offset(wanted: int | None, begin: int) -> None:
    """The assignee gets the group's offsets: others in the group are those that a task has committed by itself."""
    assignee = Assignee(wanted)
    assert begun(assignee, 700) == [{PLACE: begin}]
    assert assignee.got == [{PLACE: 1000}]


@pytest.mark.parametrize(("cut_at", "wanted", "begin"), [(950, None, 950), (950, 1500, 1500), (850, 1500, 850)])
def test_an_offset_of_the_task_stays_if_no_record_is_cut_that_was_read(
    cut_at: int, wanted: int | None, begin: int
) -> None:
    """From 900 to 1000 there were markers, of which some may be of a newer leader."""
    assert begun(Assignee(wanted), cut_at, read_to=900) == [{PLACE: begin}]
