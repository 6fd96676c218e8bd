"""When the next round begins: rounds that take long come as often as others, until they leave no time between them."""

import pytest

from fencepost.retention.keeper import pause_s


@pytest.mark.parametrize(("took_s", "expected"), [(0.0, 2.0), (0.5, 1.5), (1.5, 0.5), (1.9, 0.5), (30.0, 0.5)])
def test_a_round_begins_as_long_after_another_one_as_if_that_had_taken_no_time(took_s: float, expected: float) -> None:
    assert pause_s(2.0, took_s) == expected
