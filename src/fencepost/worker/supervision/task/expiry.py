"""Restarts tasks whose configs refer to values that have expired."""

import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from fencepost.storage.ids import TaskId
from fencepost.task.channel.message import RunState
from fencepost.worker.supervision.task.event_loop import EventLoop
from fencepost.worker.supervision.task.handle import HandleState, TaskHandle
from fencepost.worker.supervision.task.preparation import Preparation
from fencepost.worker.supervision.task.table import TaskTable

log = logging.getLogger(__name__)

_AWAY_S = 2.0


@dataclass(frozen=True)
class Expiry:
    """Used by the supervisor's thread. `restart` stops a task and starts it again.

    A task that runs is stopped only when its values can be looked up again: until then, the old ones may still be
    accepted. A start that does not run yet is left alone, as it looks up its values by itself.
    """

    table: TaskTable
    loop: EventLoop
    preparation: Preparation
    restart: Callable[[TaskId], None]

    def look(self, now: float) -> None:
        for handle in list(self.table.newest.values()):
            config = self.table.snapshot.connectors.get(handle.id.connector)
            if now >= handle.times.reload_at and _runs(handle) and config is not None:
                handle.times.reload_at = math.inf
                asked = self.loop.submit(handle.id.connector, self.preparation.why_away, config)
                asked.add_done_callback(partial(self._pass_on, handle))

    def _pass_on(self, handle: TaskHandle, asked: "Future[str]") -> None:
        self.loop.put(lambda: self._take(handle, asked))

    def _take(self, handle: TaskHandle, asked: "Future[str]") -> None:
        if asked.cancelled() or not self.table.is_newest(handle) or not _runs(handle):
            return
        if why := asked.result():
            log.warning("task %s goes on with values that have expired: %s", handle.id, why)
            handle.times.reload_at = time.monotonic() + _AWAY_S
        else:
            log.info("task %s is restarted: what its configs refer to has expired", handle.id)
            self.restart(handle.id)


def _runs(handle: TaskHandle) -> bool:
    is_up = handle.report is not None and handle.report.state in (RunState.RUNNING, RunState.PAUSED)
    return is_up and handle.state is HandleState.HOSTED
