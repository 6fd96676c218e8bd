"""The last hour of connectors' figures, and the rates and plots that are made of it.

It is sampled while a browser uses the UI, and for an hour afterwards. It begins with the last hour, which each worker
has kept of its own tasks. Plots are SVG: points of lines, and what to write beside them; the rest is in the template.
"""

import asyncio
import logging
import math
import time
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from fencepost.cluster.figures import MOST_POINTS, PERIOD_S, FigureColumns, PastFigures, Sample, merged
from fencepost.cluster.glance import figures_of
from fencepost.rest.access.need import Caller, keep_caller
from fencepost.rest.gateway import Gateway
from fencepost.rest.ui.inside import RestRefusedError, ask_for
from fencepost.rest.ui.page import count, rate, span

_RATE_POINTS = 3
LATE_S = 45.0
"""A longer pause between two samples is a gap."""

WIDTH, HEIGHT = 560, 150
_SPARK_WIDTH, _SPARK_HEIGHT = 84, 22
SPARK_POINTS = 42

Value = tuple[float, float | None]


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
    return moved / passed_s if 0 < passed_s <= LATE_S and not math.isnan(moved) else None


log = logging.getLogger(__name__)

_FIRST_S = 1.0  # so that a page has rates soon
LASTS_S = 3_600.0


class Watch:
    """Fills a `Series`. Other workers are asked from the first page on: a UI that nobody uses costs no requests.

    It asks as the worker itself; what a page shows of the series is for its handler to limit.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self.series = Series()
        self._now_s = now_s
        self._wanted_until_s = 0.0
        self._running: asyncio.Task[None] | None = None
        self._begun = asyncio.Event()

    async def look(self, request: Request) -> None:
        """Say that somebody looks at a page now. The first page waits for what workers have kept, for 2 s at most."""
        self._wanted_until_s = self._now_s() + LASTS_S
        if self._running is None or self._running.done():
            self._begun = asyncio.Event()
            self._running = asyncio.create_task(self._run(_own(request), self._begun), name="ui-watch")
        await self._begun.wait()

    async def _run(self, request: Request, begun: asyncio.Event) -> None:
        try:
            gateway: Gateway = request.app.state.gateway
            self.series.begin(await gateway.look(gateway.operations.probes.past))
        except Exception:
            log.warning("no page shows what was moved until now", exc_info=True)
        finally:
            begun.set()
        pause_s = _FIRST_S
        while self._now_s() < self._wanted_until_s:
            try:
                self.series.add(time.time(), await _samples(request))
            except RestRefusedError as error:
                log.debug("no figures: %s", error)
            await asyncio.sleep(pause_s)
            pause_s = PERIOD_S


async def _samples(request: Request) -> dict[str, Sample | None]:
    found = await ask_for(request, "GET", "/connectors", query={"expand": "figures"})
    return await run_in_threadpool(lambda: {name: Sample.of(figures_of(one)) for name, one in found.items()})


def _own(request: Request) -> Request:
    """Return a request like this one, which the worker itself sends."""
    scope = {**request.scope, "state": {}}
    keep_caller(scope, Caller())
    return Request(scope)


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
