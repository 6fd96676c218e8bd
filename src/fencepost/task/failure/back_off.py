"""How long to wait before the next try: longer with each failure in a row."""

from collections.abc import Sequence
from typing import Protocol


class Waits(Protocol):
    """The part of the task's `Control` that is needed here."""

    def back_off(self, timeout_s: float) -> None: ...


def pause_after(failures: int, pauses_s: Sequence[float]) -> float:
    """Return the pause in seconds after a number of failures in a row, from 0 on; the last pause repeats."""
    return pauses_s[min(failures, len(pauses_s) - 1)]


class BackOff:
    """Counts a task's failures in a row, and waits after each. For the task's thread."""

    def __init__(self, control: Waits, pauses_s: Sequence[float]) -> None:
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
