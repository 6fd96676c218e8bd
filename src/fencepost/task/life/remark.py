"""What the reports of a task say beside its state: why it failed, or where its thread stands still."""

import logging
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import FrameType
from typing import Any

from fencepost.config import ConfigError
from fencepost.config.connector import RuntimeChoice
from fencepost.config.raw import given_values
from fencepost.task.channel.message import HANGS, STANDS_STILL, RunState
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control

log = logging.getLogger(__name__)

_KAFKA = ("fencepost.kafka.", "fencepost.transaction.")
_WATCHED = frozenset({RunState.STARTING, RunState.RUNNING})


class Remark:
    """What is said of one task.

    A task stands still while its thread is inside a call that has not returned for `progress.timeout.ms`.
    """

    def __init__(self, spec: TaskSpec, control: Control, thread: threading.Thread) -> None:
        self._task = spec.id
        self._control = control
        self._thread = thread
        self._timeout_s = _timeout_s(spec)
        self._since: float | None = None  # the last turn before it stood still
        self._text: str | None = None
        self._in_kafka_at: float | None = None  # when it was last seen waiting for Kafka, standing still
        self.trace: str | None = None  # said with the last change of state

    def of(self, state: RunState) -> tuple[str | None, dict[str, float]]:
        """Return the trace, with since when the task stands still, if it does; and the counters that say so."""
        stillness = self._stillness(state)
        stands_still = stillness is not None
        counters = {STANDS_STILL: float(stands_still), HANGS: float(stands_still and self._in_kafka_at is None)}
        return "\n\n".join(filter(None, (self.trace, stillness))) or None, counters

    def _stillness(self, state: RunState) -> str | None:
        """Return since when the task has stood still, and the stack of its thread then; None if it moves.

        The text does not change until the task has moved, or has been in another call than Kafka's for as long.
        """
        moved_at = self._control.moved_at
        if moved_at == self._since and not self._has_left_kafka():
            return self._text if state in _WATCHED else None
        stands_s = time.monotonic() - moved_at
        if self._timeout_s is None or stands_s < self._timeout_s or state not in _WATCHED:
            if self._text is not None:
                log.warning("task %s moves again", self._task)
                self._since = self._text = None
            return None
        frame = self._frame()
        if frame is None:
            return None
        stack = "".join(traceback.format_stack(frame)).rstrip()
        self._in_kafka_at = time.monotonic() if _is_in_kafka(frame) else None
        since = datetime.now(UTC) - timedelta(seconds=stands_s)
        what = "has been starting" if state is RunState.STARTING else "has stood still"
        self._since = moved_at
        self._text = (
            f"The task {what} since {since.isoformat(timespec='seconds').replace('+00:00', 'Z')}, for longer than "
            f"{RuntimeChoice.key_of('progress_timeout_ms')}, inside this call:\n{stack}"
        )
        log.warning("task %s: %s", self._task, self._text)
        return self._text

    def _has_left_kafka(self) -> bool:
        """Say whether a task that stood still in a call of Kafka's has been in others for the timeout since then."""
        if self._in_kafka_at is None:
            return False
        frame, now = self._frame(), time.monotonic()
        if frame is None:
            return False
        if _is_in_kafka(frame):
            self._in_kafka_at = now
        return self._timeout_s is not None and now - self._in_kafka_at >= self._timeout_s

    def _frame(self) -> FrameType | None:
        return sys._current_frames().get(self._thread.ident or 0)


def _timeout_s(spec: TaskSpec) -> float | None:
    try:
        timeout_ms = RuntimeChoice(given_values(spec.connector_config)).progress_timeout_ms
    except ConfigError:  # another worker may have stored it
        return None
    return timeout_ms / 1000 or None


def _is_in_kafka(frame: FrameType) -> bool:
    return any(_is_of_kafka(each.f_globals) for each, _ in traceback.walk_stack(frame))


def _is_of_kafka(module: Mapping[str, Any]) -> bool:
    return str(module.get("__name__")).startswith(_KAFKA)
