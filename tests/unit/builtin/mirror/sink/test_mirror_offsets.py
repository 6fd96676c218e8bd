"""Positions of a mirror of the sink type, in its group."""

from typing import Any

import pytest

from fencepost.builtin.mirror.setting.mirror_settings import policy_of
from fencepost.builtin.mirror.sink import MirrorOffsets, position_from_metadata
from fencepost.builtin.mirror.source.position import gap_record, source_offset, source_partition
from fencepost.builtin.mirror.source.remote_topics import Selection
from fencepost.kafka.value.position import GapKind, LogGap, LogPosition
from fencepost.record import TopicPartition

PLACE = TopicPartition("orders", 3)
GAP = LogGap(PLACE, GapKind.TRUNCATED, position=5, start=9, end=20, topic_id="id")


def held(policy: str = "DefaultReplicationPolicy") -> MirrorOffsets:
    made = policy_of("k", policy, {"source.cluster.alias": "west"})
    return MirrorOffsets("connect-m", Selection(made, "west", "east", lambda _: True), "assigned")


@pytest.mark.parametrize(("topic_id", "epoch"), [("id", -1), ("id", 7), ("", -1)])
def test_committed_source_offset_is_read_back_unchanged(topic_id: str, epoch: int) -> None:
    partition, offset = source_partition("west", PLACE), source_offset(41, topic_id, epoch)
    position, note = held().position(partition, offset)
    remote = held().place(partition)
    assert (remote, position) == (TopicPartition("west.orders", 3), 42)
    assert remote is not None
    assert held().source(remote, position, note) == (partition, offset)


def test_group_metadata_at_the_source_names_the_topic_id_and_epoch() -> None:
    position, note = held().position(source_partition("west", PLACE), source_offset(41, "id", 7))
    assert position_from_metadata(PLACE, position, note) == LogPosition(42, "id", 7)
    assert position_from_metadata(PLACE, 42, "") == LogPosition(42)
    assert position_from_metadata(TopicPartition("another", 3), position, note) == LogPosition(42)


@pytest.mark.parametrize(
    "partition",
    [
        {},
        {"filename": "of a connector that had the name before"},
        {"cluster": "south", "topic": "orders", "partition": 3},
        {"cluster": "west", "topic": "orders"},
        {"cluster": "west", "topic": "orders", "partition": "3"},
        {"cluster": "west", "topic": None, "partition": 3},
        gap_record("west", GAP, 1)[0],
    ],
)
def test_foreign_source_partition_stays_in_the_offsets_topic(partition: Any) -> None:
    assert held().place(partition) is None


@pytest.mark.parametrize(
    ("policy", "remote"), [("DefaultReplicationPolicy", "west.orders"), ("IdentityReplicationPolicy", "orders")]
)
def test_offset_set_by_kafkas_tools_without_metadata_is_used(policy: str, remote: str) -> None:
    found = held(policy).source(TopicPartition(remote, 3), 7, "")
    assert found == (source_partition("west", PLACE), source_offset(6, ""))


@pytest.mark.parametrize(
    ("topic", "note"), [("south.orders", ""), ("orders", ""), ("west.orders", "else"), ("west.orders", '{"topic":"o"}')]
)
def test_group_offset_of_another_topic_or_owner_is_ignored(topic: str, note: str) -> None:
    assert held().source(TopicPartition(topic, 3), 7, note) is None
