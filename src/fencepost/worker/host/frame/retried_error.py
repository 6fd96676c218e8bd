"""Counts how long a running task has been failing."""

import datetime as dt
import time

_SAID_AGAIN_AFTER_S = 30.0


class RetriedError:
    """One series of failed turns without a successful one. For the task's thread."""

    def __init__(self) -> None:
        self._since_s = self._logged_s = 0.0
        self._trace: str | None = None

    @property
    def trace(self) -> str | None:
        """Return the status text of the last reported failure; None if the last turn succeeded."""
        return self._trace

    def met(self, error: Exception) -> bool:
        """Record a failed turn. Returns whether to report the failure: at its beginning, and then from time to time."""
        now = time.monotonic()
        if self._trace is None:
            self._since_s = now
        elif now - self._logged_s < _SAID_AGAIN_AFTER_S:
            return False
        self._logged_s, age_s = now, now - self._since_s
        since = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=age_s)
        self._trace = f"failing for {age_s:.0f} s, since {since:%Y-%m-%dT%H:%M:%SZ}, and retrying: {text_of(error)}"
        return True

    def passed(self) -> bool:
        """Record a successful turn. Returns whether earlier ones had failed."""
        had_any, self._trace = self._trace is not None, None
        return had_any


def text_of(error: Exception) -> str:
    """Return the text of an error, with its notes."""
    return "; ".join([str(error) or type(error).__name__, *getattr(error, "__notes__", ())])
