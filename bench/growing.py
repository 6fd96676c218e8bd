"""A file to which numbered lines are appended."""

import threading
import time
from pathlib import Path
from typing import Self

from bench.lines import FILLING, line

_TICK_S = 0.02


class GrowingFile:
    """Appends the next lines when asked."""

    def __init__(self, path: Path, width: int = 100) -> None:
        self.path = path
        self.count = 0
        self._width = width
        self._out = path.open("ab", buffering=0)

    def append(self, lines: int = 1) -> float:
        """Append the next `lines`; when (monotonic) they were in the file."""
        text = "".join(line(n, FILLING, self._width) + "\n" for n in range(self.count, self.count + lines))
        self.count += lines
        self._out.write(text.encode())
        return time.monotonic()

    def close(self) -> None:
        """No more lines."""
        self._out.close()


class Feeder:
    """Appends so many lines a second, in a thread; a context manager."""

    def __init__(self, file: GrowingFile, lines_per_s: int) -> None:
        self._file = file
        self._lines = max(int(lines_per_s * _TICK_S), 1)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_TICK_S):
            self._file.append(self._lines)
