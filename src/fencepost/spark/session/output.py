"""The output of the JVM and the Python workers, line by line."""

import collections
import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import IO

from fencepost.secret.known import hide_known

OnLine = Callable[[str], None]

_LAST_LINES_S = 10.0
_NOISE = ("Using incubator modules", "default log4j profile", "Setting default log level", "To adjust logging level")


class Output:
    """Passes on the output, without Spark's greetings, and keeps its end."""

    def __init__(self, on_line: OnLine) -> None:
        self._on_line = on_line
        self._last: collections.deque[str] = collections.deque(maxlen=30)
        self._reader: threading.Thread | None = None

    @contextlib.contextmanager
    def pipe(self) -> Iterator[int]:
        """Yield the file descriptor that a child writes to; our copy is closed afterwards."""
        reading, writing = os.pipe()
        stream = os.fdopen(reading, encoding="utf-8", errors="replace")
        self._reader = threading.Thread(target=self._pass_on, args=(stream,), name="spark-output", daemon=True)
        self._reader.start()
        try:
            yield writing
        finally:
            os.close(writing)

    def tail(self) -> str:
        """Return the last lines of a JVM that has ended. A Python worker of its may still have the pipe."""
        if self._reader is not None:
            self._reader.join(_LAST_LINES_S)
        return "\n".join(self._last)

    def _pass_on(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                if not any(noise in line for noise in _NOISE):
                    shown = hide_known(line.rstrip())  # authors' code may print anything (E11)
                    self._last.append(shown)
                    self._on_line(shown)
