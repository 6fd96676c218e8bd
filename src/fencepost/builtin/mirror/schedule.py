"""Work at an interval: a timer, threads that look or carry something out, and a log that does not repeat itself."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from fencepost.api import RetriableError

log = logging.getLogger(__name__)

_AGAIN_S = 5.0
T = TypeVar("T")


@dataclass
class Round:
    """Something to do at an interval; `what` names it in logs of failures.

    It is due at once unless `due_s` is later.
    """

    what: str
    act: Callable[[], None]
    every_s: float
    due_s: float = 0.0

    def carry_out(self) -> None:
        """Do it. If it is not answered, it is retried soon; if it is refused, when it is due again."""
        in_s = self.every_s
        try:
            self.act()
        except RetriableError as error:
            in_s = min(_AGAIN_S, in_s)
            log.warning("%s will be retried in %g s: %s", self.what, in_s, error)
        except Exception as error:  # whatever it is, the other rounds go on, and this one is tried again
            log.error("%s failed and will be retried in %g s: %s", self.what, in_s, error)
        self.due_s = time.monotonic() + in_s


class Rounds:
    """Carries out rounds, each when it is due, until it is closed."""

    def __init__(self, name: str, rounds: Sequence[Round]) -> None:
        self._rounds = rounds
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread, if there is anything to do."""
        if self._rounds:
            self._thread.start()

    def close(self) -> None:
        """Start nothing more; work in progress ends by itself. Idempotent."""
        self._is_over.set()

    @property
    def is_over(self) -> bool:
        return self._is_over.is_set()

    def _run(self) -> None:
        while not self._is_over.wait(max(0.0, min(each.due_s for each in self._rounds) - time.monotonic())):
            min(self._rounds, key=lambda each: each.due_s).carry_out()


class IntervalTimer:
    """Says when the next time is due. The first is due at once; missed times are not made up for."""

    def __init__(self, interval_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._due_s = clock()

    def left_s(self) -> float:
        """Return the seconds until the next time; 0 if it is due."""
        return max(0.0, self._due_s - self._clock())

    def take(self) -> bool:
        """Say whether it is due; if so, the next time is an interval from now."""
        if self.left_s():
            return False
        self._due_s = self._clock() + self._interval_s
        return True


class Watch(Generic[T]):
    """Looks at an interval, on a thread of its own, and reports when the result changes.

    `look` is never called by two threads at once. If it fails, the previous result stays.
    """

    def __init__(
        self, name: str, look: Callable[[], T], interval_s: float | None, on_change: Callable[[], None]
    ) -> None:
        """Without an interval, look only for the first `seen`."""
        self._look = look
        self._on_change = on_change
        self._looking = threading.Lock()
        self._seen: list[T] = []
        rounds = []
        if interval_s is not None:
            rounds.append(Round(f"looking at {name}", self._look_again, interval_s, time.monotonic() + interval_s))
        self._rounds = Rounds(f"watch-{name}", rounds)
        self.start, self.stop = self._rounds.start, self._rounds.close

    def seen(self) -> T:
        """Return the last result; looks now if there is none yet. Raises what `look` raises."""
        with self._looking:
            if not self._seen:
                self._seen = [self._look()]
            return self._seen[0]

    def _look_again(self) -> None:
        with self._looking:
            before, self._seen = self._seen, [self._look()]
        if before and before != self._seen and not self._rounds.is_over:
            self._on_change()


class WarningLog:
    """Logs a warning when it is new or has changed, and not again while it lasts."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._logged: dict[str, str] = {}

    def update(self, current: Mapping[str, str]) -> None:
        """Log the current warnings that are new or have changed. Keys are items such as `group a`."""
        for what, why in current.items():
            if self._logged.get(what) != why:
                self._log.warning("%s: %s", what, why)
        self._logged = dict(current)
