"""Source offsets of a mirror: MirrorMaker's, with the id of the topic."""

from collections.abc import Mapping
from typing import Any

import pytest

from fencepost.api import ConnectError
from fencepost.builtin.mirror.source.position import (
    OffsetColumn,
    check_altered,
    gap_error,
    gap_record,
    position_of,
    source_offset,
    source_partition,
)
from fencepost.kafka.value.position import GapKind, LogGap, LogPosition
from fencepost.record import Repeated, TopicPartition

PLACE = TopicPartition("orders", 3)


def test_mirror_continues_after_the_last_copied_record_of_the_same_topic() -> None:
    assert position_of(source_offset(41, "id")) == LogPosition(42, "id")
    assert position_of(source_offset(41, "id", 0)) == LogPosition(42, "id", 0)


def test_mirrormakers_offset_applies_to_any_topic_id() -> None:
    assert position_of({"offset": 41}) == LogPosition(42)
    assert source_offset(41, "", 3) == {"offset": 41}
    assert position_of({"offset": 41, "leader_epoch": 3}) == LogPosition(42)  # an epoch of which topic?
    assert source_partition("west", PLACE) == {"cluster": "west", "topic": "orders", "partition": 3}


def test_empty_source_offset_is_no_position() -> None:
    assert position_of({}) is None


def test_offset_column_creates_offsets_on_access() -> None:
    column = OffsetColumn([7, 8, 9], Repeated("id", 3), [-1, -1, 4])
    last = {"offset": 9, "topic_id": "id", "leader_epoch": 4}
    assert list(column[1:]) == [{"offset": 8, "topic_id": "id"}, last]


def altered(partition: Mapping[str, Any], offset: Mapping[str, Any] | None) -> None:
    check_altered({tuple(partition.items()): offset}, "west")


def test_positions_of_the_source_may_be_set_and_any_offset_deleted() -> None:
    altered({"cluster": "west", "topic": "t", "partition": 0}, {"offset": 0})
    altered({"cluster": "west", "topic": "t", "partition": 0}, source_offset(-1, "id"))  # as it is shown
    altered({"cluster": "elsewhere"}, None)


@pytest.mark.parametrize(
    ("partition", "offset", "why"),
    [
        (
            {"cluster": "east", "topic": "t", "partition": 0},
            {"offset": 1},
            "cluster 'east', but this connector's source",
        ),
        ({"cluster": "west", "topic": "t", "partition": -1}, {"offset": 1}, "a partition number"),
        ({"cluster": "west", "topic": "t"}, {"offset": 1}, "a partition number"),
        ({"cluster": "west", "topic": "t", "partition": 0}, {"offset": "1"}, "needs a whole number"),
        ({"cluster": "west", "topic": "t", "partition": 0}, {"offset": -2}, "needs a whole number"),
        ({"cluster": "west", "topic": "t", "partition": 0, "gap": 4}, {"offset": 1}, "unknown keys: gap"),
    ],
)
def test_invalid_source_offset_is_refused(partition: Any, offset: Any, why: str) -> None:
    with pytest.raises(ConnectError, match=why):
        altered(partition, offset)


GAP = LogGap(PLACE, GapKind.TRUNCATED, position=5, start=9, end=20, topic_id="id")


def test_gap_error_names_the_cause_the_offsets_and_both_remedies() -> None:
    text = str(gap_error([GAP], "my-mirror"))
    assert (
        "orders-3 was read up to offset 5, and the log begins beyond the position: it has offsets 9 to 20 now" in text
    )
    assert "PATCH /connectors/my-mirror/offsets" in text
    assert "on.source.gap=record" in text


def test_gap_is_recorded_under_a_source_partition_of_its_own() -> None:
    partition, told = gap_record("west", GAP, 1_000)
    assert partition == {"cluster": "west", "topic": "orders", "partition": 3, "gap": 5}
    assert told == {
        "reason": "truncated", "position": 5, "log_start": 9, "log_end": 20, "continues_at": 9, "topic_id": "id",
        "time_ms": 1_000,
    }  # fmt: skip


@pytest.mark.parametrize("kind", [GapKind.CUT, GapKind.DIVERGED])
def test_gap_of_a_cut_log_is_recorded_with_the_offset_after_it(kind: GapKind) -> None:
    _, recorded = gap_record("west", LogGap(PLACE, kind, position=15, start=2, end=20, common=9), 1_000)
    assert (recorded["position"], recorded["continues_at"]) == (15, 9)
