"""The last hour of connectors' figures, which plots and rates are made of.

It is sampled while a browser uses the UI, and for an hour afterwards. It begins with the last hour, which each worker
has kept of its own tasks.
"""

import asyncio
import logging
import math
import time
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from fencepost.cluster.figures import MOST_POINTS, PERIOD_S, FigureColumns, PastFigures, Sample, merged
from fencepost.cluster.glance import figures_of
from fencepost.rest.access.caller import Caller, keep_caller
from fencepost.rest.gateway import Gateway
from fencepost.rest.ui.inside import RestRefusedError, ask_for

_RATE_POINTS = 3
LATE_S = 45.0
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
