"""A file whose changes take effect without a restart."""

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from fencepost.config.errors import ConfigError

log = logging.getLogger(__name__)

T = TypeVar("T")


class WatchedFiles(Generic[T]):
    """What some files contain together, read again when one of them was changed or replaced. Thread-safe.

    The first reading raises ConfigError. If a later one does, the last contents stay in use, the log says why, and
    `stale_files` names them.
    """

    def __init__(self, paths: list[str], read: Callable[[], T]) -> None:
        self._paths = paths
        self._read = read
        self._lock = threading.Lock()
        self._seen = self._stamps()
        self._content = read()
        self.is_stale = False
        _all.add(self)

    @property
    def names(self) -> str:
        return ", ".join(self._paths)

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
        try:
            self._content = self._read()
        except ConfigError as error:
            self.is_stale = True
            log.error("%s changed, and what was there before stays in use: %s", self.names, "; ".join(error.messages))
        else:
            self.is_stale = False
            log.info("%s: read again, as it was changed", self.names)

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(path) for path in self._paths]


_all: "WeakSet[WatchedFiles[Any]]" = WeakSet()


def stale_files() -> list[str]:
    """Return the watched files of this process that were changed and cannot be used: their last contents still are."""
    watched = list(_all)
    for each in watched:
        _ = each.content  # nobody may have asked for it since it was changed
    return sorted(each.names for each in watched if each.is_stale)


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
