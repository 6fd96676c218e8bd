"""What keeps a task that runs from getting on, and since when."""

import datetime as dt
import time

_SAID_AGAIN_AFTER_S = 30.0


class Trouble:
    """One stretch of turns that failed, none of which got through. For the task's thread."""

    def __init__(self) -> None:
        self._since_s = self._told_s = 0.0
        self._trace: str | None = None

    @property
    def trace(self) -> str | None:
        """Return what the status says of it, as of when `met` last returned True; None: there is no trouble."""
        return self._trace

    def met(self, error: Exception) -> bool:
        """Note that a turn failed. Returns whether that should be said (again): now and then, with its age."""
        now = time.monotonic()
        if self._trace is None:
            self._since_s = now
        elif now - self._told_s < _SAID_AGAIN_AFTER_S:
            return False
        self._told_s, age_s = now, now - self._since_s
        since = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=age_s)
        self._trace = (
            f"in trouble for {age_s:.0f} s, since {since:%Y-%m-%dT%H:%M:%SZ}, and trying again: {text_of(error)}"
        )
        return True

    def passed(self) -> bool:
        """Note that a turn got through. Returns whether there was trouble."""
        had_any, self._trace = self._trace is not None, None
        return had_any


def text_of(error: Exception) -> str:
    """Return what an error says, with its notes."""
    return "; ".join([str(error) or type(error).__name__, *getattr(error, "__notes__", ())])
