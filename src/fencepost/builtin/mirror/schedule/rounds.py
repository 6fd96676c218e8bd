"""Periodic work for a connector, in a thread of its own."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fencepost.api import RetriableError

log = logging.getLogger(__name__)

_AGAIN_S = 5.0


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
        except Exception as error:
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

    def _run(self) -> None:
        while not self._is_over.wait(max(0.0, min(each.due_s for each in self._rounds) - time.monotonic())):
            min(self._rounds, key=lambda each: each.due_s).carry_out()
