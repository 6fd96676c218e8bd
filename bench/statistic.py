"""Percentiles and how numbers are written."""

import math
import statistics
from collections.abc import Sequence


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest rank: the smallest of `values` that at least `percent` of them do not exceed."""
    if not values:
        raise ValueError("no values")
    ranked = sorted(values)
    return ranked[max(math.ceil(percent / 100 * len(ranked)), 1) - 1]


def statistic(name: str, values: Sequence[float]) -> float:
    """`median`, `max`, `min`, or a percentile as `p99`."""
    if name == "median":
        return statistics.median(values)
    if name in ("max", "min"):
        return max(values) if name == "max" else min(values)
    return percentile(values, float(name.removeprefix("p")))


def number(value: float) -> str:
    """Three digits that count, thousands with commas."""
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    rounded = round(value, digits)
    return f"{rounded:,.{max(digits, 0)}f}" if abs(rounded) < 100 else f"{rounded:,.0f}"
