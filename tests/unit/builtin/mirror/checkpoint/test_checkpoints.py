"""Checkpoints: what is written for the offsets of groups, and what is committed for groups at the target."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api import ReplicationPolicy
from fencepost.builtin.mirror.checkpoint.checkpoints import (
    Checkpoints,
    Translation,
    is_within,
    remote_partition,
    steps_of_group,
    translated,
)
from fencepost.builtin.mirror.checkpoint.connector import divided
from fencepost.builtin.mirror.formats import Checkpoint, OffsetSync
from fencepost.builtin.mirror.setting.mirror_settings import policy_of
from fencepost.kafka.group.group_offsets import Committed
from fencepost.kafka.value.position import GroupOffset
from fencepost.record import TopicPartition

HERE, THERE = TopicPartition("t", 0), TopicPartition("A.t", 0)


def checkpoint(upstream: int, downstream: int, group: str = "g") -> Checkpoint:
    return Checkpoint(group, THERE, upstream, downstream)


def written(*checkpoints: Checkpoint) -> Checkpoints:
    made = Checkpoints(["g"])
    for each in checkpoints:
        made.add(each)
    return made


@pytest.mark.parametrize(
    ("last", "now", "end", "is_due"),
    [
        (None, (5, 50), 99, True),
        (None, (5, 50), 50, True),
        (None, (5, 50), 49, False),  # beyond the end: the syncs are of another topic
        (None, (5, 50), None, False),
        ((5, 50), (5, 50), 99, False),
        ((5, 50), (7, 50), 99, False),
        ((5, 50), (7, 51), 99, True),
        ((5, 50), (5, 52), 99, True),  # more is known of the same position
        ((5, 50), (7, 40), 99, False),  # less is known
        ((5, 50), (7, 40), 45, True),  # what was written cannot hold
        ((5, 50), (7, 40), 50, False),
        ((5, 50), (4, 40), 99, True),  # the group was sent back
        ((5, 50), (4, 60), 99, True),
    ],
)
def test_checkpoint_is_written_only_forward_unless_the_group_was_rewound(
    last: tuple[int, int] | None, now: tuple[int, int], end: int | None, is_due: bool
) -> None:
    known = written(checkpoint(*last)) if last else written()
    candidate = checkpoint(*now)
    is_candidate = known.is_step(candidate) or known.is_less(candidate)
    assert (is_candidate and known.is_due(candidate, end)) is is_due


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=20), st.integers(0, 60))
def test_checkpoints_never_go_back_without_a_rewind_at_the_source(rounds: list[tuple[int, int]], end: int) -> None:
    known, places = written(), []
    for upstream, downstream in sorted(rounds):
        now = checkpoint(upstream, downstream)
        if known.is_due(now, end + 60):
            known.add(now)
            places.append(downstream)
    assert places == sorted(set(places))


def test_checkpoints_of_groups_of_other_tasks_are_not_kept() -> None:
    known = written(checkpoint(5, 50, group="other"), checkpoint(5, 50))
    assert list(known.of("g")) == [checkpoint(5, 50)]
    known.forget()
    assert list(known.of("g")) == []


def test_positions_are_translated_with_metadata_when_a_sync_is_known() -> None:
    translation = Translation()
    translation.add(OffsetSync(HERE, 5, 50))
    unknown, open_, early = TopicPartition("u", 0), TopicPartition("t", 1), TopicPartition("t", 2)
    translation.add(OffsetSync(early, 5, 50))
    translation.add(OffsetSync(open_, 5, 50))
    standing = {
        HERE: Committed(6, "note"),
        unknown: Committed(6, ""),
        open_: None,
        early: Committed(4, ""),
        TopicPartition("left-out", 0): Committed(6, ""),
    }
    remote = {place: TopicPartition(f"A.{place.topic}", place.partition) for place in (HERE, unknown, open_, early)}
    assert translated("g", standing, translation, remote, {}) == [Checkpoint("g", THERE, 6, 51, "note")]


def test_a_position_before_all_syncs_is_the_beginning_of_the_remote_partition() -> None:
    """Without any sync nothing is known, not even that it is mirrored."""
    translation = Translation()
    translation.add(OffsetSync(HERE, 5, 50))
    before = {HERE: Committed(2, "note"), TopicPartition("other", 0): Committed(2, "")}
    remote = {place: TopicPartition(f"a.{place.topic}", place.partition) for place in before}
    begins = dict.fromkeys(remote.values(), 7)
    assert translated("g", before, translation, remote, begins) == [Checkpoint("g", remote[HERE], 2, 7, "note")]


def identity() -> ReplicationPolicy:
    return policy_of("k", "IdentityReplicationPolicy", {"source.cluster.alias": "A"})


def test_checkpoint_partitions_have_the_topic_names_of_the_target() -> None:
    policy = policy_of("k", "DefaultReplicationPolicy", {})
    assert remote_partition(policy, "A", "B", TopicPartition("t", 3)) == TopicPartition("A.t", 3)
    assert remote_partition(policy, "A", "B", TopicPartition("C.t", 3)) == TopicPartition("A.C.t", 3)
    assert remote_partition(policy, "A", "B", TopicPartition("B.t", 3)) == TopicPartition("t", 3)
    assert remote_partition(identity(), "A", "B", TopicPartition("t", 3)) == TopicPartition("t", 3)


@pytest.mark.parametrize(
    ("standing", "steps"),
    [
        ({}, [GroupOffset("A.t", 0, 50, "")]),
        ({THERE: Committed(49, "")}, [GroupOffset("A.t", 0, 50, "")]),
        ({THERE: Committed(50, "")}, []),
        ({THERE: Committed(60, "")}, []),
        ({THERE: None}, []),
        ({HERE: Committed(60, "")}, [GroupOffset("A.t", 0, 50, "")]),
    ],
)
def test_group_at_the_target_is_never_moved_backwards(
    standing: dict[TopicPartition, Committed | None], steps: list[GroupOffset]
) -> None:
    assert steps_of_group([checkpoint(5, 50)], standing) == steps


@pytest.mark.parametrize(("end", "is_in"), [({THERE: 50}, True), ({THERE: 49}, False), ({}, False)])
def test_group_offset_beyond_the_end_is_not_committed(end: dict[TopicPartition, int], is_in: bool) -> None:
    assert is_within(GroupOffset("A.t", 0, 50), end) is is_in


@given(st.lists(st.text(min_size=1), unique=True), st.integers(1, 20))
def test_groups_are_divided_evenly_and_in_order(groups: list[str], most: int) -> None:
    parts = divided(groups, most)
    assert [group for part in parts for group in part] == groups
    assert len(parts) == min(most, len(groups))
    sizes = {len(part) for part in parts}
    assert not sizes or max(sizes) - min(sizes) <= 1
