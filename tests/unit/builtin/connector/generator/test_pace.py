"""Pace: never above the rate, and no burst after a pause."""

from fencepost.builtin.connector.generator import Pace


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_pace_keeps_the_rate_over_many_small_steps() -> None:
    clock = Clock()
    pace = Pace(1000, clock)
    taken = 0
    for _ in range(300):
        clock.now_s += 0.01
        taken += pace.take(500)
    assert 2990 <= taken <= 3000


def test_pace_makes_no_burst_after_a_pause() -> None:
    clock = Clock()
    pace = Pace(1000, clock)
    clock.now_s += 3600
    assert pace.take(10**6) == 100


def test_pace_below_one_per_second_gives_single_records_in_time() -> None:
    clock = Clock()
    pace = Pace(0.5, clock)
    assert pace.take(10) == 0
    assert pace.wait_s() == 2.0
    clock.now_s += 2
    assert pace.take(10) == 1


def test_pace_without_a_limit_gives_the_requested_number() -> None:
    assert Pace(-1).take(7) == 7
    assert Pace(0).is_unlimited
