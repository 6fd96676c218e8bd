"""Samples the figures of all connectors while somebody uses the UI, and for an hour afterwards."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from fencepost.cluster.glance import figures_of
from fencepost.rest.access.caller import Caller, keep_caller
from fencepost.rest.ui.inside import RestRefusedError, ask_for
from fencepost.rest.ui.series import Sample, Series

log = logging.getLogger(__name__)

PERIOD_S = 10.0
_FIRST_S = 1.0  # so that a page has rates soon
LASTS_S = 3_600.0


class Watch:
    """Fills a `Series`. It begins with the first page that is asked for: a UI that nobody uses costs nothing.

    It asks as the worker itself; what a page shows of the series is for its handler to limit.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self.series = Series()
        self._now_s = now_s
        self._wanted_until_s = 0.0
        self._running: asyncio.Task[None] | None = None

    def look(self, request: Request) -> None:
        """Say that somebody looks at a page now."""
        self._wanted_until_s = self._now_s() + LASTS_S
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run(_own(request)), name="ui-watch")

    async def _run(self, request: Request) -> None:
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
    return await run_in_threadpool(_samples_of, found)


def _samples_of(found: Mapping[str, Any]) -> dict[str, Sample | None]:
    return {name: Sample.of(figures_of(one)) for name, one in found.items()}


def _own(request: Request) -> Request:
    """Return a request like this one, which the worker itself sends."""
    scope = {**request.scope, "state": {}}
    keep_caller(scope, Caller())
    return Request(scope)
