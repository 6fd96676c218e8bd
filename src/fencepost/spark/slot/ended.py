"""By which signal a Python process of Spark's ended, which could say nothing itself.

Spark says that it exited unexpectedly and, with `spark.python.worker.faulthandler.enabled`, adds what Python's fault
handler wrote at the end. For SIGKILL nobody writes anything.
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
    """Return the name of the signal that ended the process behind a failed job of Spark's; None where none did.

    A process that is gone without a trace was killed: by the system, for want of memory, or by somebody.
    """
    text = str(error)
    if _CRASHED not in text:
        return None
    fatal = _FATAL.search(text)
    return "SIGKILL" if fatal is None else _SIGNALS.get(fatal[1].strip(), "SIGABRT")


class ProcessEnds:
    """Counts the processes of slots and splits that were ended by a signal, and says so in the log. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def note(self, what: str, error: BaseException | None) -> str | None:
        """Take note of how `what` ended; return the signal's name, if it was one."""
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
