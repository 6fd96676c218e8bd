"""Writes to a topic all the time, while a test does something to the topic's readers."""

import threading
from collections.abc import Callable
from typing import Self


class Repeatedly:
    """Does something over and over in a thread, until it is stopped or that fails. A context manager.

    What it fails with (a full disk, for one) is raised in whoever asks or stops it: a run that nothing is fed to any
    more proves nothing.
    """

    def __init__(self, act: Callable[[], None], every_s: float) -> None:
        self._act = act
        self._every_s = every_s
        self._error: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def check(self) -> None:
        """Raise what it has failed with, if it has."""
        if self._error is not None:
            raise AssertionError(f"what feeds the test has failed: {self._error!r}") from self._error

    def stop(self) -> None:
        """Return when nothing is done any more. Raises what `check` does. Idempotent."""
        self._stop.set()
        self._thread.join()
        self.check()

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._every_s):
                self._act()
        except Exception as error:
            self._error = error


class Feed:
    """Has the numbers 1, 2, 3 and so on written, block by block, in a thread, until it is stopped."""

    def __init__(self, write: Callable[[range], bool], *, block: int, per_s: int) -> None:
        """`write` says whether the numbers are there when it returns; else they are written again."""
        self._sent = 0
        self._write = write
        self._block = block
        self._feeding = Repeatedly(self._write_block, block / per_s).__enter__()

    @property
    def sent(self) -> int:
        """Return the last number that was written. Raises AssertionError where it is the last for ever."""
        self._feeding.check()
        return self._sent

    def _write_block(self) -> None:
        numbers = range(self._sent + 1, self._sent + 1 + self._block)
        if self._write(numbers):
            self._sent = numbers[-1]

    def stop(self) -> int:
        """Return the last number that was written. Raises AssertionError where writing has failed. Idempotent."""
        self._feeding.stop()
        return self._sent
