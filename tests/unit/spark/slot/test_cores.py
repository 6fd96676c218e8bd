"""Slots and DataFrame jobs never wait for each other for ever."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.spark.slot.cores import CoreLedger, CoreUse, NoCoreError


def test_slots_leave_the_reserved_cores_alone() -> None:
    ledger = CoreLedger(4, reserved=2)
    ledger.take(2, CoreUse.SLOT)
    with pytest.raises(NoCoreError, match=r"spark.master=local\[N\]"):
        ledger.take(1, CoreUse.SLOT)
    ledger.take(2, CoreUse.SPLIT)
    assert ledger.free == 0


def test_released_cores_can_be_taken_again() -> None:
    ledger = CoreLedger(1)
    ledger.take(1, CoreUse.SPLIT)
    ledger.release(1, CoreUse.SPLIT)
    ledger.take(1, CoreUse.SLOT)
    with pytest.raises(ValueError, match="no slot holds"):
        ledger.release(2, CoreUse.SLOT)


@given(
    st.integers(0, 7),
    st.lists(st.tuples(st.sampled_from(["take", "release"]), st.integers(1, 5), st.sampled_from(CoreUse))),
)
def test_taken_never_exceeds_the_total_and_a_reserved_split_always_fits(
    reserved: int, steps: list[tuple[str, int, CoreUse]]
) -> None:
    ledger = CoreLedger(8, reserved=reserved)
    for verb, n, use in steps:
        try:
            if verb == "take":
                ledger.take(n, use)
            else:
                ledger.release(n, use)
        except (NoCoreError, ValueError):
            continue
        assert ledger.taken(CoreUse.SLOT) + max(reserved, ledger.taken(CoreUse.SPLIT)) <= 8
