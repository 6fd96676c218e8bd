"""`eventually`: how long it waits, and how often it looks."""

import os

import pytest

from fencepost.testing import eventually, verdict


class Clock:
    """Goes on where somebody sleeps, for as long as `sleeps_s` says, else for as long as was wanted."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.sleeps_s: list[float] = []

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, wanted_s: float) -> None:
        self.now_s += self.sleeps_s.pop(0) if self.sleeps_s else wanted_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.setattr(verdict, "time", made)
    return made


def test_time_out_shows_the_last_value(clock: Clock) -> None:
    with pytest.raises(AssertionError, match="not within 10 s; last seen: 0"):
        eventually(lambda: 0, within_s=10)
    assert 10 < clock.now_s < 11


def test_predicate_is_checked_once_more_when_the_time_is_over(clock: Clock) -> None:
    looks: list[int] = []

    def look() -> bool:
        clock.now_s += 60  # it asked somebody who was slow
        looks.append(1)
        return len(looks) == 2

    assert eventually(look, within_s=10)


def test_time_in_which_the_process_was_frozen_does_not_count(clock: Clock) -> None:
    clock.sleeps_s = [1_000.0]
    assert eventually(lambda: clock.now_s > 1_005, within_s=10)


@pytest.mark.parametrize(("processes_per_core", "limit_s"), [(1, 10), (8, 20), (1_000, 40)])
def test_a_limit_is_stretched_when_many_processes_want_the_cores(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, processes_per_core: int, limit_s: float
) -> None:
    load = processes_per_core * (os.cpu_count() or 1)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    with pytest.raises(AssertionError):
        eventually(lambda: False, within_s=10)
    assert limit_s < clock.now_s < limit_s + 1
