"""A file whose changes take effect without a restart."""

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from fencepost.config.errors import ConfigError

log = logging.getLogger(__name__)

T = TypeVar("T")


class WatchedFiles(Generic[T]):
    """What some files contain together, read again when one of them was changed or replaced. Thread-safe.

    The first reading raises ConfigError. If a later one does, the last contents stay in use, and the log says why.
    """

    def __init__(self, paths: list[str], read: Callable[[], T]) -> None:
        self._paths = paths
        self._read = read
        self._lock = threading.Lock()
        self._seen = self._stamps()
        self._content = read()

    @property
    def content(self) -> T:
        stamps = self._stamps()
        if stamps != self._seen:
            with self._lock:
                if stamps != self._seen:
                    self._update()
                    self._seen = stamps
        return self._content

    def _update(self) -> None:
        names = ", ".join(self._paths)
        try:
            self._content = self._read()
        except ConfigError as error:
            log.error("%s changed, and what was there before stays in use: %s", names, "; ".join(error.messages))
        else:
            log.info("%s: read again, as it was changed", names)

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(path) for path in self._paths]


def read_text(path: str) -> str:
    """Return the text of a file. Raises ConfigError."""
    try:
        return Path(path).read_text("utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: it is not UTF-8") from None


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
