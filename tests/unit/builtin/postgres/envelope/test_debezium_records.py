"""Records of all types compared with those that Debezium made of the same catalogs, rows and messages."""

from functools import lru_cache

import pytest

from support.debezium_records import DIFFERENT, Replay, recorded, unexpected

MODES = ("default", "double", "string", "nanoseconds", "microseconds", "isostring")


@lru_cache
def replay(mode: str) -> Replay:
    return Replay(recorded()[mode])


@lru_cache
def compared(mode: str, part: str) -> tuple[list[str], frozenset[str]]:
    return unexpected(getattr(replay(mode), part)())


@pytest.mark.parametrize("mode", MODES)
def test_rows_of_a_snapshot_are_debeziums_records(mode: str) -> None:
    assert compared(mode, "snapshot")[0] == []


@pytest.mark.parametrize("mode", MODES)
def test_changes_of_the_log_are_debeziums_records(mode: str) -> None:
    assert compared(mode, "stream")[0] == []


def test_heartbeats_are_debeziums_records() -> None:
    found = list(replay("double").heartbeats())
    assert found
    assert all(one.expected == one.found for one in found)


def test_each_known_difference_from_debezium_is_still_there() -> None:
    used = {one for mode in MODES for part in ("snapshot", "stream") for one in compared(mode, part)[1]}
    assert used == set(DIFFERENT)


@pytest.mark.parametrize("mode", MODES)
def test_columns_of_rows_become_the_same_json_as_single_rows(mode: str) -> None:
    for one, of_column in replay(mode).snapshot_columns():
        assert of_column == one
