"""A file that somebody else appends to: opened when it appears, followed by its path."""

import logging
import os
import stat
from typing import NamedTuple

from fencepost.api import FatalError

log = logging.getLogger(__name__)


class Look(NamedTuple):
    """What one look at the path showed: the size (0: no file), and whether bytes read earlier may have changed."""

    size: int
    is_other_content: bool


class GrowingFile:
    """Reads a file at byte positions. The path counts, not the file behind it, as it would after a restart."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor: int | None = None
        self._identity: tuple[int, int] | None = None
        self._size = 0
        self._is_missed = False

    def look(self, position: int) -> Look:
        """Look at the path, and open what is there. Raises FatalError when it ends before `position`."""
        try:
            found = os.stat(self.path)
            is_other = (found.st_dev, found.st_ino) != self._identity or found.st_size < self._size
            if found.st_size < position:
                raise FatalError(self._shrunk(position, found.st_size))
            if (found.st_dev, found.st_ino) != self._identity:
                self._open()
        except FileNotFoundError:
            self._report_missing()
            return Look(0, is_other_content=False)
        except OSError as error:
            raise FatalError(f"{self.path} cannot be read: {error.strerror}") from error
        self._size = found.st_size
        return Look(found.st_size, is_other)

    def read(self, position: int, size_bytes: int) -> bytes:
        """Return the bytes at `position`; fewer than asked for only at the end of the file."""
        if self._descriptor is None:
            return b""
        try:
            return os.pread(self._descriptor, size_bytes, position)
        except OSError as error:
            raise FatalError(f"{self.path} cannot be read: {error.strerror}") from error

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            self._identity = None

    def _open(self) -> None:
        self.close()
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(descriptor)
            raise FatalError(f"{self.path} is not a regular file: set 'file' to one")
        self._descriptor = descriptor
        self._identity = (found.st_dev, found.st_ino)
        self._is_missed = False

    def _report_missing(self) -> None:
        if not self._is_missed:
            log.warning("%s does not exist; waiting for it", self.path)
        self._is_missed = True

    def _shrunk(self, position: int, size_bytes: int) -> str:
        return (
            f"{self.path} has {size_bytes} bytes, but it was read up to byte {position}: it was truncated or replaced. "
            f"Put the file back and restart the task; or, to read it from its start, delete the connector and create "
            f"it under another name, which has no offsets yet"
        )
