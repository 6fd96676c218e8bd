"""Samples the figures of all connectors while somebody uses the UI, and for an hour afterwards.

It begins with the last hour, which each worker has kept of its own tasks.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from fencepost.cluster.figures import PERIOD_S, Sample
from fencepost.cluster.glance import figures_of
from fencepost.rest.access.caller import Caller, keep_caller
from fencepost.rest.gateway import Gateway
from fencepost.rest.ui.inside import RestRefusedError, ask_for
from fencepost.rest.ui.series import Series

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
    return await run_in_threadpool(_samples_of, found)


def _samples_of(found: Mapping[str, Any]) -> dict[str, Sample | None]:
    return {name: Sample.of(figures_of(one)) for name, one in found.items()}


def _own(request: Request) -> Request:
    """Return a request like this one, which the worker itself sends."""
    scope = {**request.scope, "state": {}}
    keep_caller(scope, Caller())
    return Request(scope)
