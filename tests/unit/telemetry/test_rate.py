"""Rates over windows: those of `org.apache.kafka.common.metrics.stats.Rate`."""

import pytest

from fencepost.telemetry.measure import WindowedRates


def test_rate_begins_as_if_all_windows_but_the_last_had_passed() -> None:
    rates = WindowedRates(30, 2)
    rates.add({"seen": 60}, 100.0)
    assert rates.per_second(100.0) == {"seen": 2.0}
    assert rates.per_second(115.0)["seen"] == pytest.approx(60 / 45)


def test_only_the_last_windows_count() -> None:
    rates = WindowedRates(30, 2)
    for second, total in ((0, 0), (29, 300), (31, 400), (59, 500), (61, 600), (62, 700)):
        rates.add({"seen": total}, 1000.0 + second)
    # The windows begin at 31 and 61; before the first of them 300 were seen.
    assert rates.per_second(1071.0)["seen"] == pytest.approx((700 - 300) / 40)


def test_rate_of_an_unchanged_total_falls_to_zero() -> None:
    rates = WindowedRates(30, 2)
    rates.add({"seen": 10}, 0.0)
    assert rates.per_second(59.0)["seen"] > 0
    assert rates.per_second(60.0) == {"seen": 0.0}
    rates.add({"seen": 40}, 500.0)
    assert rates.per_second(500.0) == {"seen": 1.0}
