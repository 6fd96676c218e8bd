"""What runs in a thread beside a measurement."""

import threading
from abc import ABC, abstractmethod
from typing import Self


class Background(ABC):
    """A thread that runs while it is entered; a context manager."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @abstractmethod
    def _run(self) -> None:
        """Go on until `_stop` is set."""
