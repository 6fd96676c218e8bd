"""How long somebody waits before the next try: longer with each failure in a row."""

from collections.abc import Sequence
from typing import Protocol


class Waits(Protocol):
    """What is needed of the task's `Control`."""

    def back_off(self, timeout_s: float) -> None: ...


def pause_after(failures: int, pauses_s: Sequence[float]) -> float:
    """Return the pause in seconds after so many failures in a row, from none on; the last one stands for more."""
    return pauses_s[min(failures, len(pauses_s) - 1)]


class BackOff:
    """Counts the failures in a row of one task, and waits after each. For the task's thread."""

    def __init__(self, control: Waits, pauses_s: Sequence[float]) -> None:
        self._control = control
        self._pauses_s = pauses_s
        self.failures = 0

    def failed(self) -> None:
        """Count one more."""
        self.failures += 1

    def passed(self) -> None:
        """Begin anew: something was committed, or there was nothing to do."""
        self.failures = 0

    def wait(self) -> None:
        """Wait for as long as the failures so far ask for, or until the task is to stop or to pause."""
        self._control.back_off(pause_after(self.failures, self._pauses_s))
