"""A file to which numbered lines are appended."""

import time
from pathlib import Path

from bench.background import Background
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


class Feeder(Background):
    """Appends so many lines a second, in a thread; a context manager."""

    def __init__(self, file: GrowingFile, lines_per_s: int) -> None:
        super().__init__()
        self._file = file
        self._lines = max(int(lines_per_s * _TICK_S), 1)

    def _run(self) -> None:
        while not self._stop.wait(_TICK_S):
            self._file.append(self._lines)
