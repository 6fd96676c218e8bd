"""The last hour of connectors' figures: what plots and rates are made of."""

import math
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

MOST_POINTS = 360
_RATE_POINTS = 3
_LATE_S = 45.0
"""A longer pause between two samples is a gap."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Counts of a connector's tasks, together; `lag_max` is the largest, None if no task has one."""

    read: float
    written: float
    lag_max: float | None

    @classmethod
    def of(cls, tasks: Iterable[Mapping[str, Any] | None]) -> "Sample | None":
        """Return the sum of tasks' figures; None if no task has any."""
        known = [task for task in tasks if task]
        if not known:
            return None
        lags = [task["lag_max"] for task in known if task.get("lag_max") is not None]
        return cls(
            sum(task.get("records_read_total") or 0 for task in known),
            sum(task.get("records_written_total") or 0 for task in known),
            max(lags, default=None),
        )


@dataclass(frozen=True, slots=True)
class Point:
    """Records read and written a second between two samples, at the time of the second; None after a gap."""

    at_s: float
    read: float | None
    written: float | None
    lag: float | None


class _Columns:
    def __init__(self) -> None:
        self.columns = tuple(array("d") for _ in range(4))  # time, read, written, lag

    def add(self, *values: float) -> None:
        for column, value in zip(self.columns, values, strict=True):
            column.append(value)
            if len(column) > MOST_POINTS:
                del column[0]


class Series:
    """Samples of connectors by name, `MOST_POINTS` of each. On the event loop only."""

    def __init__(self) -> None:
        self._of: dict[str, _Columns] = {}

    def add(self, at_s: float, samples: Mapping[str, Sample]) -> None:
        """Keep a sample of each connector; those that are not among them are forgotten."""
        for name in self._of.keys() - samples.keys():
            del self._of[name]
        for name, sample in samples.items():
            lag = math.nan if sample.lag_max is None else sample.lag_max
            self._of.setdefault(name, _Columns()).add(at_s, sample.read, sample.written, lag)

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
    if not 0 < passed_s <= _LATE_S:
        return None
    return max(0.0, totals[n] - totals[n - 1]) / passed_s  # less than before: a task began again at 0
