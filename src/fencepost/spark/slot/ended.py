"""Finds the signal by which a Python process of Spark ended: the process itself could not report it.

Spark reports an unexpected exit and, with `spark.python.worker.faulthandler.enabled`, appends the last output of
Python's fault handler. After SIGKILL there is none.
"""

import logging
import re
import threading
from collections import Counter
from collections.abc import Mapping

log = logging.getLogger(__name__)

_CRASHED = "Python worker exited unexpectedly (crashed)"
_FATAL = re.compile(r"Fatal Python error: ([A-Z][\w -]+)")
_SIGNALS = {
    "Segmentation fault": "SIGSEGV",
    "Aborted": "SIGABRT",
    "Bus error": "SIGBUS",
    "Illegal instruction": "SIGILL",
    "Floating point exception": "SIGFPE",
    "Floating-point exception": "SIGFPE",
}


def signal_of(error: BaseException | None) -> str | None:
    """Return the name of the signal that ended the process of a failed Spark job; None if no signal did.

    A process that ended without any output was killed: by the system, for lack of memory, or by a person.
    """
    text = str(error)
    if _CRASHED not in text:
        return None
    fatal = _FATAL.search(text)
    return "SIGKILL" if fatal is None else _SIGNALS.get(fatal[1].strip(), "SIGABRT")


class ProcessEnds:
    """Counts the processes of slots and splits that a signal ended, and logs each. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def record(self, what: str, error: BaseException | None) -> str | None:
        """Record how `what` ended; return the signal's name, if a signal ended it."""
        name = signal_of(error)
        if name is not None:
            with self._lock:
                self._counts[name] += 1
            log.error("the process of %s was ended by %s: %s", what, name, error)
        return name

    def counts(self) -> Mapping[str, int]:
        """Return how many there were since the worker's start, by the signal's name."""
        with self._lock:
            return dict(self._counts)
