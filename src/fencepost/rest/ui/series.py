"""The last hour of connectors' figures: what plots and rates are made of."""

import math
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fencepost.cluster.figures import MOST_POINTS, FigureColumns, PastFigures, Sample, merged

_RATE_POINTS = 3
_LATE_S = 45.0
"""A longer pause between two samples is a gap."""


@dataclass(frozen=True, slots=True)
class Point:
    """Records read and written a second between two samples, at the time of the second; None after a gap."""

    at_s: float
    read: float | None
    written: float | None
    lag: float | None


class Series:
    """Samples of connectors by name, `MOST_POINTS` of each. On the event loop only."""

    def __init__(self) -> None:
        self._of: dict[str, FigureColumns] = {}

    def begin(self, found: Iterable[PastFigures]) -> None:
        """Forget everything, and begin with what workers have kept; each has its own of a connector."""
        parts: dict[str, list[PastFigures]] = {}
        for one in found:
            if one.at_s:
                parts.setdefault(one.connector, []).append(one)
        past = (each[0] if len(each) == 1 else merged(each) for each in parts.values())
        self._of = {one.connector: FigureColumns.of(one) for one in past if one.at_s}

    def add(self, at_s: float, samples: Mapping[str, Sample | None]) -> None:
        """Keep a sample of each connector of which something is known; those that are not named are forgotten."""
        for name in self._of.keys() - samples.keys():
            del self._of[name]
        for name, sample in samples.items():
            if sample is not None:
                self._of.setdefault(name, FigureColumns()).add(at_s, sample)

    def points(self, name: str, last: int = MOST_POINTS) -> list[Point]:
        """Return the rates of a connector, the oldest first."""
        found = self._of.get(name)
        if found is None:
            return []
        at_s, read, written, lag = (column[-last - 1 :] for column in found.columns)
        return [
            Point(
                at_s[n],
                _rate(at_s, read, n),
                _rate(at_s, written, n),
                None if math.isnan(lag[n]) else lag[n],
            )
            for n in range(1, len(at_s))
        ]

    def rate(self, name: str) -> float | None:
        """Return the records that a connector has written a second recently; None if that is not known yet."""
        known = [point.written for point in self.points(name, _RATE_POINTS) if point.written is not None]
        return sum(known) / len(known) if known else None


def _rate(at_s: "array[float]", totals: "array[float]", n: int) -> float | None:
    passed_s = at_s[n] - at_s[n - 1]
    moved = totals[n] - totals[n - 1]
    return moved / passed_s if 0 < passed_s <= _LATE_S and not math.isnan(moved) else None
