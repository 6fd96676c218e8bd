"""Positions that a group has lost: where a mirror continues, and what is logged."""

from fencepost.builtin.mirror.sink import Restored, Synced, restored
from fencepost.kafka.value.position import LogPosition
from fencepost.record import TopicPartition

A, B, C = (TopicPartition("orders", number) for number in range(3))


def told(found: Restored) -> str:
    return "\n".join(found.messages("connect-m"))


def test_sync_of_the_last_record_is_exact_for_any_group_offset() -> None:
    found = restored([A], {A: Synced(LogPosition(9, "id"), 0)}, {A: LogPosition(12, "id")})
    assert found.positions() == {A: LogPosition(9, "id")}
    assert "exactly where to continue, for orders-0" in told(found)
    assert "TWICE" not in told(found)


def test_lagging_sync_reports_the_number_of_possible_duplicates() -> None:
    found = restored([A], {A: Synced(LogPosition(9, "id"), 100)}, {})
    assert found.positions() == {A: LogPosition(9, "id")}
    assert "exactly" not in told(found)
    assert "MIRRORED TWICE, for orders-0 (up to 100)" in told(found)


def test_later_position_of_sync_and_group_is_used_when_the_sync_lags() -> None:
    synced = {place: Synced(LogPosition(9, "id"), 5) for place in (A, B, C)}
    followed = {A: LogPosition(12, "id"), B: LogPosition(7, "id"), C: LogPosition(12, "another topic's id")}
    found = restored([A, B, C], synced, followed)
    assert found.positions() == {A: LogPosition(12, "id"), B: LogPosition(9, "id"), C: LogPosition(9, "id")}
    assert "group connect-m of the source says where to continue, for orders-0" in told(found)


def test_position_without_a_topic_id_is_logged_as_uncertain() -> None:
    found = restored([A, B], {A: Synced(LogPosition(9), 0)}, {B: LogPosition(9, "id")})
    assert "for orders-0: if a topic was deleted and recreated" in told(found)
    assert "orders-1: if" not in told(found)


def test_partition_without_a_known_position_is_mirrored_from_the_start() -> None:
    found = restored([A], {}, {})
    assert found.positions() == {}
    assert told(found) == "nothing says where to continue, for orders-0: they are mirrored from the start"
