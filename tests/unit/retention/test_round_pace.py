"""When the next round begins: rounds that take long come as often as others, until they leave no time between them."""

import pytest

from fencepost.retention.keeper import pause_s


@pytest.mark.parametrize(("took_s", "expected"), [(0.0, 2.0), (0.5, 1.5), (1.5, 0.5), (1.9, 0.5), (30.0, 0.5)])
def test_duration_of_a_round_does_not_delay_the_next_one(took_s: float, expected: float) -> None:
    assert pause_s(2.0, took_s) == expected
