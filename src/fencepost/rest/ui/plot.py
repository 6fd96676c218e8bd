"""Plots as SVG: points of lines, and what to write beside them. Everything else is in the template."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fencepost.rest.ui.page import count, rate, span
from fencepost.rest.ui.series import LATE_S, Point

WIDTH, HEIGHT = 560, 150
_SPARK_WIDTH, _SPARK_HEIGHT = 84, 22
SPARK_POINTS = 42

Value = tuple[float, float | None]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a plot: its name, its kind (how it is drawn), and the pieces of it between gaps."""

    name: str
    kind: str
    pieces: Sequence[str]
    last: str


@dataclass(frozen=True, slots=True)
class Plot:
    """`label` says for those who do not see it what it shows; `ticks` are heights and their texts."""

    label: str
    lines: Sequence[Line]
    ticks: Sequence[tuple[float, str]]
    times: Sequence[tuple[float, str]]


def throughput(points: Sequence[Point]) -> Plot | None:
    """Return the plot of records read and written a second; None if nothing is known yet."""
    read = [(point.at_s, point.read) for point in points]
    written = [(point.at_s, point.written) for point in points]
    return _plot("Throughput", {"written": written, "read": read}, rate)


def lag(points: Sequence[Point]) -> Plot | None:
    """Return the plot of the largest lag; None if there is none, as for sources."""
    return _plot("Lag", {"lag": [(point.at_s, point.lag) for point in points]}, count)


def spark(points: Sequence[Point]) -> Sequence[str]:
    """Return a small line without axes: the rate of recent points."""
    values = [(point.at_s, point.written) for point in points[-SPARK_POINTS:]]
    top = max((value for _, value in values if value is not None), default=0.0)
    if not top:
        return ()
    return _pieces(values, values[0][0], values[-1][0], top, _SPARK_WIDTH, _SPARK_HEIGHT)


def _plot(name: str, of: dict[str, list[Value]], say: Callable[[float | None], str]) -> Plot | None:
    known = [value for values in of.values() for _, value in values if value is not None]
    times = [at_s for values in of.values() for at_s, _ in values]
    if not known or max(times) <= min(times):
        return None
    top, first_s, last_s = _nice(max(known)), min(times), max(times)
    lines = [
        Line(kind, kind, _pieces(values, first_s, last_s, top, WIDTH, HEIGHT), say(_last(values)))
        for kind, values in of.items()
        if any(value is not None for _, value in values)
    ]
    said = "; ".join(f"{line.name} {line.last} now" for line in lines)
    length = span(last_s - first_s)
    return Plot(
        f"{name} of the last {length}: {said}; at most {say(max(known))}",
        lines,
        [(HEIGHT * (1 - part), say(top * part)) for part in (0.0, 0.5, 1.0)],
        [(0, f"{length} ago"), (WIDTH, "now")],
    )


def _last(values: Iterable[Value]) -> float | None:
    return next((value for _, value in reversed(list(values)) if value is not None), None)


def _nice(value: float) -> float:
    """Return a round number that is not smaller, and at least 1."""
    if value <= 1:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(value))
    return next(unit * step for step in (1, 2, 5, 10) if unit * step >= value)


def _pieces(values: Sequence[Value], first_s: float, last_s: float, top: float, width: int, height: int) -> list[str]:
    pieces: list[list[str]] = [[]]
    before_s = first_s
    for at_s, value in values:
        if value is None or at_s - before_s > LATE_S:
            pieces.append([])
        if value is not None:
            x = width * (at_s - first_s) / max(last_s - first_s, 1e-9)
            pieces[-1].append(f"{x:.1f},{height * (1 - min(value / top, 1.0)):.1f}")
        before_s = at_s
    return [" ".join(piece) for piece in pieces if len(piece) > 1]
