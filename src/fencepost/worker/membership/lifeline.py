"""Whether the cluster still counts on this worker: one cut off from Kafka, or from its group, ends its tasks."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

log = logging.getLogger(__name__)

_NO_ANSWER = "no answer came in that time"


class RunningTasks(Protocol):
    """The part of `TaskSupervisor` that is needed here."""

    def cut_off(self, is_cut_off: bool) -> None:
        """End all tasks here until the worker is back in its group, because other workers may run them by now."""


class Lifeline:
    """Checks in a thread of its own whether the group has this worker, and reports when it is lost and when it is back.

    The worker is lost if it was not seen for `session_timeout_s`, counted from the beginning of the last successful
    check: by then the coordinator has removed it, and others may have its tasks. A process that was paused finds this
    time exceeded when it wakes up.
    """

    def __init__(
        self,
        is_member: Callable[[], bool],
        session_timeout_s: float,
        tasks: RunningTasks,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`is_member` may raise any error that prevents an answer, and must return in much less than the timeout."""
        self._is_member = is_member
        self._session_timeout_s = session_timeout_s
        self._tasks = tasks
        self._now = now
        self._seen_at = now()
        self._answer = _NO_ANSWER  # of the last check, unless it succeeded
        self.is_lost = False
        self._judging = threading.Lock()  # housekeeping calls `judge`, too
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._repeat, args=(act,), name=f"lifeline-{n}", daemon=True)
            for n, act in enumerate((self.look, self.judge))
        ]

    def start(self) -> None:
        self._seen_at = self._now()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()

    @property
    def is_overdue(self) -> bool:
        """Say whether this worker is lost, or the next check will find it so, for callers that cannot wait for it."""
        return self.is_lost or self._is_unseen()

    def look(self) -> None:
        """Check once whether the group has this worker."""
        began = self._now()
        try:
            if self._is_member():
                self._seen_at, self._answer = began, _NO_ANSWER
            else:
                self._answer = "the group does not contain it"
        except Exception as error:
            self._answer = f"the group cannot be asked: {error}"

    def judge(self) -> None:
        """Report a change. Separate from `look`, which may block for as long as its requests."""
        with self._judging:
            is_lost = self._is_unseen()
            if is_lost == self.is_lost:
                return
            self.is_lost = is_lost
            if is_lost:
                log.error(
                    "this worker has not been seen in its group for %g s: its tasks are stopped, because other "
                    "workers may run them (%s)",
                    self._session_timeout_s,
                    self._answer,
                )
            else:
                log.info("this worker is in its group again")
            self._tasks.cut_off(is_lost)

    def _is_unseen(self) -> bool:
        return self._now() - self._seen_at > self._session_timeout_s

    def _repeat(self, act: Callable[[], None]) -> None:
        every_s = min(1.0, self._session_timeout_s / 6)
        while not self._stopping.wait(every_s):
            act()
