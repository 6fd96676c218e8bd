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
class Totals:
    """What a task has read and written since it started."""

    started_ms: int
    read: int
    written: int


@dataclass(frozen=True, slots=True)
class Sample:
    """The totals of a connector's tasks by number, and the largest lag; None if no task has one."""

    tasks: Mapping[int, Totals]
    lag_max: float | None

    @classmethod
    def of(cls, tasks: Iterable[Mapping[str, Any]]) -> "Sample | None":
        """Return the sample of tasks' figures; None if there are none."""
        known = {task["id"]: task for task in tasks}
        lags = [task["lag_max"] for task in known.values() if task.get("lag_max") is not None]
        totals = {
            number: Totals(
                task.get("started_ms") or 0, task.get("records_read_total") or 0, task.get("records_written_total") or 0
            )
            for number, task in known.items()
        }
        return cls(totals, max(lags, default=None)) if totals else None


@dataclass(frozen=True, slots=True)
class Point:
    """Records read and written a second between two samples, at the time of the second; None after a gap."""

    at_s: float
    read: float | None
    written: float | None
    lag: float | None


class _Columns:
    """A connector's columns: times, records read and written since the first sample, lags."""

    def __init__(self) -> None:
        self.columns = tuple(array("d") for _ in range(4))
        self._seen: dict[int, Totals] = {}
        self._read = self._written = 0

    def add(self, at_s: float, sample: Sample) -> None:
        for number, now in sample.tasks.items():
            before = self._seen.get(number, now)
            if before.started_ms != now.started_ms:
                before = Totals(now.started_ms, 0, 0)
            self._read += max(0, now.read - before.read)
            self._written += max(0, now.written - before.written)
            self._seen[number] = now
        lag = math.nan if sample.lag_max is None else sample.lag_max
        for column, value in zip(self.columns, (at_s, self._read, self._written, lag), strict=True):
            column.append(value)
            if len(column) > MOST_POINTS:
                del column[0]


class Series:
    """Samples of connectors by name, `MOST_POINTS` of each. On the event loop only."""

    def __init__(self) -> None:
        self._of: dict[str, _Columns] = {}

    def add(self, at_s: float, samples: Mapping[str, Sample | None]) -> None:
        """Keep a sample of each connector of which something is known; those that are not named are forgotten."""
        for name in self._of.keys() - samples.keys():
            del self._of[name]
        for name, sample in samples.items():
            if sample is not None:
                self._of.setdefault(name, _Columns()).add(at_s, sample)

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
    return (totals[n] - totals[n - 1]) / passed_s
