"""Failures after which a task tries again: how long it waits, and what it reports."""

import datetime as dt
import time
from collections.abc import Sequence
from typing import NamedTuple

from fencepost.task.control import Control


def pause_after(failures: int, pauses_s: Sequence[float]) -> float:
    """Return the pause in seconds after a number of failures in a row, from 0 on; the last pause repeats."""
    return pauses_s[min(failures, len(pauses_s) - 1)]


class BackOff:
    """Counts a task's failures in a row, and waits after each. For the task's thread."""

    def __init__(self, control: Control, pauses_s: Sequence[float]) -> None:
        self._control = control
        self._pauses_s = pauses_s
        self.failures = 0

    def failed(self) -> None:
        """Count one more failure."""
        self.failures += 1

    def passed(self) -> None:
        """Reset the count: something was committed, or there was nothing to do."""
        self.failures = 0

    def wait(self) -> None:
        """Wait as long as the failures so far require, or until the task is asked to stop or pause."""
        self._control.back_off(pause_after(self.failures, self._pauses_s))


_MOST_PAUSE_S = 300.0


class _Series(NamedTuple):
    """The failures of one step in a row; `said_s` is when the newest was said, on the monotonic clock."""

    text: str
    kind: type[Exception]
    since: str
    said_s: float
    pause_s: float


class RetriedErrors:
    """Those of one start. For the task's thread, except for `text`."""

    def __init__(self) -> None:
        self._series: dict[str, _Series] = {}  # by step; replaced, as other threads read it

    @property
    def text(self) -> str | None:
        """Return what is tried again, the reason first; None if nothing is. Any thread.

        While a step fails it changes when `met` says so.
        """
        found = list(self._series.values())
        return f"{found[-1].text}\n\nFailing since {found[-1].since}, and retrying" if found else None

    def met(self, step: str, error: Exception) -> bool:
        """Record that a step has failed and will be tried again.

        Returns whether to say so: at the first failure in a row, and then at growing intervals, or if it is of another
        kind than the last that was said.
        """
        now, last, kind = time.monotonic(), self._series.get(step), type(error)
        if last is not None and now - last.said_s < last.pause_s and kind is last.kind:
            return False
        since = f"{dt.datetime.now(dt.UTC):%Y-%m-%dT%H:%M:%SZ}" if last is None else last.since
        pause_s = 1.0 if last is None else min(2 * last.pause_s, _MOST_PAUSE_S)
        self._series = {**self._series, step: _Series(text_of(error), kind, since, now, pause_s)}
        return True

    def passed(self, step: str) -> bool:
        """Record that a step has succeeded. Returns whether it had failed before."""
        if step not in self._series:
            return False
        self._series = {each: series for each, series in self._series.items() if each != step}
        return True


def text_of(error: Exception) -> str:
    """Return the text of an error, with its notes."""
    return "; ".join([str(error) or type(error).__name__, *getattr(error, "__notes__", ())])
