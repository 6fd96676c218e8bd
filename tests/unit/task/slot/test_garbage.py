"""The garbage of a slot: cycles are collected, by the clock and where very many come to stay."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from fencepost.telemetry.measure import Garbage, lasting_imports, rare_collections


class Knot:
    """An object in a cycle."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def _rare() -> Iterator[None]:
    with rare_collections():
        yield


def lost_knot() -> "weakref.ref[Knot]":
    return weakref.ref(Knot())


@pytest.mark.usefixtures("_rare")
def test_a_cycle_of_any_age_is_collected_once_ten_seconds_are_over() -> None:
    now_s = [0.0]
    garbage = Garbage(lambda: now_s[0])
    knot = Knot()
    is_gone = weakref.ref(knot)
    gc.collect()  # it is old now
    del knot
    now_s[0] = 9.9
    garbage.collect_if_due()
    assert is_gone() is not None
    now_s[0] = 10.0
    garbage.collect_if_due()
    assert is_gone() is None


@pytest.mark.usefixtures("_rare")
def test_a_collection_that_takes_long_is_made_rarely() -> None:
    times = iter([0.0, 10.0, 11.0, 200.0, 211.0, 211.5])  # made, begun, ended, too early, begun, ended
    garbage = Garbage(lambda: next(times))
    garbage.collect_if_due()
    is_gone = lost_knot()
    garbage.collect_if_due()
    assert is_gone() is not None
    garbage.collect_if_due()
    assert is_gone() is None


@pytest.mark.usefixtures("_rare")
def test_many_cycles_are_collected_before_the_interval_has_passed() -> None:
    made = [lost_knot() for _ in range(1_000)]
    for _ in range(250_000):
        Knot()
    assert not any(each() is not None for each in made)


@pytest.mark.usefixtures("_rare")
def test_short_lived_objects_of_a_poll_trigger_no_collection() -> None:
    before = gc.get_stats()
    for _ in range(50):
        assert len([(number, "topic") for number in range(20_000)]) == 20_000
    assert [each["collections"] for each in gc.get_stats()] == [each["collections"] for each in before]


def test_garbage_collector_settings_are_restored_when_a_slot_ends() -> None:
    before = gc.get_threshold(), gc.get_freeze_count()
    with rare_collections():
        assert gc.get_threshold() != before[0]
        assert gc.get_freeze_count() > before[1]
    assert (gc.get_threshold(), gc.get_freeze_count()) == before


def test_earlier_garbage_is_collected_before_the_heap_is_frozen() -> None:
    is_gone = lost_knot()
    with rare_collections():
        assert is_gone() is None


def test_objects_of_lasting_imports_are_never_scanned_by_the_collector() -> None:
    try:
        with lasting_imports():
            is_gone = lost_knot()
            assert not gc.isenabled()
        assert gc.isenabled()
        gc.collect()
        assert is_gone() is not None
    finally:
        gc.unfreeze()
    gc.collect()
    assert is_gone() is None
