"""How far a slot is behind in time, and when its end is near."""

import pytest

from fencepost.builtin.postgres.source.slot_watch import Lag, risk
from fencepost.postgres.slots import SlotState


def test_lag_begins_with_the_first_end_that_is_not_confirmed() -> None:
    lag = Lag()
    assert lag.seconds(0, end_lsn=100, confirmed_lsn=100) == 0
    assert lag.seconds(5, end_lsn=200, confirmed_lsn=100) == 0
    assert lag.seconds(10, end_lsn=300, confirmed_lsn=100) == 5
    assert lag.seconds(15, end_lsn=300, confirmed_lsn=200) == 5
    assert lag.seconds(20, end_lsn=300, confirmed_lsn=300) == 0
    assert lag.seconds(25, end_lsn=300, confirmed_lsn=300) == 0


def test_lag_of_a_day_is_remembered_from_its_beginning() -> None:
    lag = Lag()
    for number in range(20_000):
        last = lag.seconds(5 * number, end_lsn=number + 1, confirmed_lsn=0)
    assert last == 5 * 19_999
    assert len(lag._ends) <= 1_000


@pytest.mark.parametrize(
    ("wal_status", "reason", "said"),
    [
        ("reserved", None, None),
        ("extended", None, None),
        ("unreserved", None, "will soon invalidate the slot shop"),
        ("lost", None, "has invalidated the slot shop"),
        ("reserved", "idle_timeout", "has invalidated the slot shop"),
    ],
)
def test_slot_that_is_at_risk_is_remarked_with_the_setting(
    wal_status: str, reason: str | None, said: str | None
) -> None:
    state = SlotState(
        name="shop", plugin="pgoutput", database="shop", active=False, active_pid=None, confirmed_flush_lsn=1,
        restart_lsn=1, wal_status=wal_status, invalidation_reason=reason, retained_bytes=7, lag_bytes=0,
        catalog_xmin_age=0, failover=False, synced=False, is_in_recovery=False,
    )  # fmt: skip
    found = risk(state)
    assert (found is None) if said is None else said in str(found)
