"""What writes to a topic all the time, while a test does something to who reads it."""

import threading
from collections.abc import Callable


class Feed:
    """Has the numbers 1, 2, 3 and so on written, block by block, in a thread, until it is stopped."""

    def __init__(self, write: Callable[[range], bool], *, block: int, per_s: int) -> None:
        """`write` says whether the numbers are there when it returns; else they are written again."""
        self.sent = 0
        self._write = write
        self._block = block
        self._every_s = block / per_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            numbers = range(self.sent + 1, self.sent + 1 + self._block)
            if self._write(numbers):
                self.sent = numbers[-1]

    def stop(self) -> int:
        """Return the last number that was written. Idempotent."""
        self._stop.set()
        self._thread.join()
        return self.sent
