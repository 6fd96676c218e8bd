"""Text files that grow while they are read, as logs do, and what else grows so."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, Self

_EVERY_S = 0.05
_DECAY_S = 20.0
_REST_S = 1.0
_FIRST = 0.05


class Growing(Protocol):
    """What grows: a file by its lines, a table by its rows."""

    def grow_to(self, share: float) -> None:
        """Let it have this share of all that it will have."""

    def close(self) -> None: ...


class Feeder:
    """Lets things grow, in a thread; a context manager.

    Each second a twentieth of what is left, from the first lines on, so that lines are on their way for as long as
    things are killed, however long that takes; after `release` the rest.
    """

    def __init__(self, growing: Sequence[Growing]) -> None:
        self._growing = growing
        self._stop = threading.Event()
        self._is_begun = threading.Event()
        self._is_released = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)

    def __enter__(self) -> Self:
        for each in self._growing:
            each.grow_to(_FIRST)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        for each in self._growing:
            each.close()

    def begin(self) -> None:
        """Somebody reads: append."""
        self._is_begun.set()

    def release(self) -> None:
        """Let the rest go."""
        self._is_released.set()

    def _run(self) -> None:
        share, at = _FIRST, time.monotonic()
        while share < 1 and not self._stop.wait(_EVERY_S):
            before, at = at, time.monotonic()
            if self._is_released.is_set():
                share = min(1.0, share + (at - before) / _REST_S)
            elif self._is_begun.is_set():
                share += (1 - share) * min(1.0, (at - before) / _DECAY_S)
            for each in self._growing:
                each.grow_to(share)


class GrowingFile:
    """A file and the lines that are appended to it."""

    def __init__(self, path: Path, lines: Sequence[bytes]) -> None:
        self._lines = lines
        self._written = 0
        self._out = path.open("ab", buffering=0)

    def grow_to(self, share: float) -> None:
        until = int(len(self._lines) * share)
        self._out.write(b"".join(self._lines[self._written : until]))
        self._written = until

    def close(self) -> None:
        self._out.close()
