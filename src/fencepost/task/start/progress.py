"""Explains a task's state: the trace of its failure, or the call that it is stuck in."""

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import FrameType

from fencepost.config.connector import RuntimeChoice
from fencepost.hook.hosted_task import InOtherProcess
from fencepost.reference.limited import look_up_name
from fencepost.task.channel.message import HANGS, RETRYING, STANDS_STILL, RunState
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control

log = logging.getLogger(__name__)

_OURS = "fencepost."
_KAFKA = ("fencepost.kafka.", "fencepost.transaction.")
_ANSWER_S = 1.0
_SLOW_START_S = 5.0
_WATCHED = frozenset({RunState.STARTING, RunState.RUNNING})


class ProgressWatch:
    """Watches one task, and explains its state in its reports.

    A task stands still while its thread is inside a call that has not returned for `progress.timeout.ms`, or while
    another process is inside one on its behalf.
    """

    def __init__(
        self,
        spec: TaskSpec,
        control: Control,
        thread: Callable[[], threading.Thread],
        elsewhere: Callable[[], InOtherProcess | None] = lambda: None,
    ) -> None:
        """`thread` is the one in which the task's code runs at the moment."""
        self._task = spec.id
        self._control = control
        self._thread = thread
        self._elsewhere = elsewhere
        self._timeout_s = spec.run.progress_timeout_ms / 1000 or None
        self._found: _Stillness | None = None
        self._slow: tuple[float, str] | None = None  # since when it has not moved, and what is said of that
        self.trace: str | None = None  # said with the last change of state

    def of(self, state: RunState, retried: str | None = None) -> tuple[str | None, dict[str, float]]:
        """Return the trace with the texts about retries and standing still, and the counters for both."""
        stillness = self._stillness(state)
        stands_still = stillness is not None
        retried = retried if state in _WATCHED else None
        counters = {STANDS_STILL: float(stands_still), HANGS: float(stands_still and not self._was_in_kafka)}
        counters[RETRYING] = float(retried is not None)
        return "\n\n".join(filter(None, (retried, self.trace, stillness or self._slow_start(state)))) or None, counters

    def _slow_start(self, state: RunState) -> str | None:
        """Return in which call a task is that has been starting for a while; the text is the same while it is there."""
        moved_at = self._control.moved_at
        if state is not RunState.STARTING or time.monotonic() - moved_at < _SLOW_START_S:
            return None
        if (frame := self._frame()) is None:
            return None
        if self._slow is None or self._slow[0] != moved_at:
            where = "a call of another process" if self._elsewhere() is not None else call_of(frame)
            self._slow = moved_at, f"Starting since {utc_of(moved_at)}, inside {where}"
        return self._slow[1]

    def _stillness(self, state: RunState) -> str | None:
        """Return since when the task has stood still, and where its code was then; None if it moves.

        The text does not change until the task has moved, or has been in another call than Kafka's for as long, or
        another process has said where it is.
        """
        moved_at, is_elsewhere = self._moved_at()
        found = self._found
        if found is not None and found.since == moved_at and not self._has_left_kafka(found):
            return found.text if state in _WATCHED else None
        stands_s = time.monotonic() - moved_at
        if self._timeout_s is None or stands_s < self._timeout_s or state not in _WATCHED:
            if found is not None:
                log.warning("task %s moves again", self._task)
                self._found = None
            return None
        frame = self._frame()
        if frame is None and not is_elsewhere:
            return None
        found = self._found = _Stillness(moved_at, _text(state, stands_s, None if is_elsewhere else self._thread()))
        found.in_kafka_at = time.monotonic() if self._waits_for_kafka(frame, is_elsewhere=is_elsewhere) else None
        elsewhere = self._elsewhere()
        if elsewhere is not None:
            found.ask(elsewhere, self._task)
        log.warning("task %s: %s", self._task, found.text)
        return found.text

    def _moved_at(self) -> tuple[float, bool]:
        """Return when the task moved last, and whether it has waited for a call in another process since then."""
        elsewhere, moved_at = self._elsewhere(), self._control.moved_at
        since = None if elsewhere is None else elsewhere.waits_since()
        return (moved_at, False) if since is None or since >= moved_at else (since, True)

    @property
    def _was_in_kafka(self) -> bool:
        return self._found is not None and self._found.in_kafka_at is not None

    def _has_left_kafka(self, found: "_Stillness") -> bool:
        """Say whether a task that stood still in a call of Kafka's has been in others for the timeout since then."""
        if found.in_kafka_at is None:
            return False
        frame, now = self._frame(), time.monotonic()
        if frame is None:
            return False
        if self._waits_for_kafka(frame, is_elsewhere=False):
            found.in_kafka_at = now
        return self._timeout_s is not None and now - found.in_kafka_at >= self._timeout_s

    def _waits_for_kafka(self, frame: FrameType | None, *, is_elsewhere: bool) -> bool:
        elsewhere = self._elsewhere()
        if elsewhere is not None and elsewhere.waits_for_kafka():
            return True
        return not is_elsewhere and frame is not None and is_in_kafka(frame)

    def _frame(self) -> FrameType | None:
        return sys._current_frames().get(self._thread().ident or 0)


class _Stillness:
    """A task that stands still, with the text about it. The stack in another process may be added late, or never."""

    def __init__(self, since: float, text: str) -> None:
        """`since` is when the task moved last."""
        self.since = since
        self.text = text
        self.in_kafka_at: float | None = None  # when it was last seen waiting for Kafka

    def ask(self, elsewhere: InOtherProcess, task: str) -> None:
        """Add where the task is in the other process, now or once that is known."""
        asking = threading.Thread(target=self._ask, args=(elsewhere, task), name=f"where-{task}", daemon=True)
        asking.start()
        asking.join(_ANSWER_S)

    def _ask(self, elsewhere: InOtherProcess, task: str) -> None:
        try:
            stack = elsewhere.stack().rstrip()
        except Exception as error:  # the other process has ended, which its next call finds out
            log.info("where task %s stands still in another process is not known: %s", task, error)
            return
        if stack:
            self.text += f"\n\nIn the other process it is here:\n{stack}"


def _text(state: RunState, stands_s: float, thread: threading.Thread | None) -> str:
    """Return the text about a task that stands still; without a thread it does so in another process."""
    what = "has been starting" if state is RunState.STARTING else "has stood still"
    since = utc_of(time.monotonic() - stands_s)
    where = "a call of another process" if thread is None else f"this call:\n{stack_of(thread)}"
    timeout, action = RuntimeChoice.key_of("progress_timeout_ms"), RuntimeChoice.key_of("progress_timeout_action")
    return (
        f"The task {what} since {since}, for longer than {timeout} (restart it if it does not move again, or let "
        f"{action}=fail do so), inside {where}"
    )


def utc_of(at_s: float) -> str:
    """Return the time of day of a moment on the monotonic clock, in UTC as ISO 8601 writes it."""
    found = datetime.now(UTC) - timedelta(seconds=time.monotonic() - at_s)
    return found.isoformat(timespec="seconds").replace("+00:00", "Z")


def stack_of(thread: threading.Thread) -> str:
    """Return where a thread is, outermost call first, and where one is that looks up a value for it.

    Empty if it has ended.
    """
    frames = sys._current_frames()
    helpers = [each.ident for each in threading.enumerate() if each.name == look_up_name(thread.ident)]
    found = [frames[ident] for ident in (thread.ident, *helpers) if ident in frames]
    return "\nThis waits for:\n".join("".join(traceback.format_stack(frame)).rstrip() for frame in found)


def call_of(frame: FrameType) -> str:
    """Return the author's call that a thread with this innermost frame is in; that frame if it is in none."""
    chosen = frame
    for each, _ in traceback.walk_stack(frame):
        if str(each.f_globals.get("__name__")).startswith(_OURS):
            break
        chosen = each
    return f"{chosen.f_code.co_qualname} ({chosen.f_code.co_filename}, line {chosen.f_lineno})"


def is_in_kafka(frame: FrameType) -> bool:
    """Say whether a thread with this innermost frame is in a call of Kafka's clients.

    They may have called it: a sink's `open` and `close` are called while the group is polled.
    """
    modules = (str(each.f_globals.get("__name__")) for each, _ in traceback.walk_stack(frame))
    return next((module for module in modules if module.startswith(_OURS)), "").startswith(_KAFKA)
