"""Positions that a group has lost: where a mirror continues, and what is logged."""

from fencepost.kafka.value.log_gap import LogPosition
from fencepost.mirror.sink.restored import Restored, Synced, restored
from fencepost.record import TopicPartition

A, B, C = (TopicPartition("orders", number) for number in range(3))


def told(found: Restored) -> str:
    return "\n".join(found.messages("connect-m"))


def test_a_sync_of_the_last_record_is_exact_whatever_the_group_says() -> None:
    found = restored([A], {A: Synced(LogPosition(9, "id"), 0)}, {A: LogPosition(12, "id")})
    assert found.positions() == {A: LogPosition(9, "id")}
    assert "exactly where to continue, for orders-0" in told(found)
    assert "TWICE" not in told(found)


def test_a_sync_that_lags_is_not_called_exact_and_says_how_much_may_come_twice() -> None:
    found = restored([A], {A: Synced(LogPosition(9, "id"), 100)}, {})
    assert found.positions() == {A: LogPosition(9, "id")}
    assert "exactly" not in told(found)
    assert "MIRRORED TWICE, for orders-0 (up to 100)" in told(found)


def test_the_further_one_of_both_is_taken_where_the_sync_lags() -> None:
    synced = {place: Synced(LogPosition(9, "id"), 5) for place in (A, B, C)}
    followed = {A: LogPosition(12, "id"), B: LogPosition(7, "id"), C: LogPosition(12, "another topic's id")}
    found = restored([A, B, C], synced, followed)
    assert found.positions() == {A: LogPosition(12, "id"), B: LogPosition(9, "id"), C: LogPosition(9, "id")}
    assert "group connect-m of the source says where to continue, for orders-0" in told(found)


def test_a_position_of_an_unknown_topic_is_said_to_be_one() -> None:
    found = restored([A, B], {A: Synced(LogPosition(9), 0)}, {B: LogPosition(9, "id")})
    assert "for orders-0: if a topic was deleted and recreated" in told(found)
    assert "orders-1: if" not in told(found)


def test_what_nothing_tells_of_is_mirrored_anew() -> None:
    found = restored([A], {}, {})
    assert found.positions() == {}
    assert told(found) == "nothing says where to continue, for orders-0: they are mirrored from the start"
