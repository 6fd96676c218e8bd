"""A file that other programs append to: opened when it appears, followed by its path."""

import logging
import os
import stat
from typing import NamedTuple

from fencepost.api import FatalError
from fencepost.builtin.connector.file_stream.start import FileStart
from fencepost.config.byte_order import marked_encoding
from fencepost.config.file_limit import file_limit

log = logging.getLogger(__name__)

_COMPARED_BYTES = 4096
_ADVICE = (
    "Put the file back and restart the task; or, to read it from its start, delete the connector and create it under "
    "another name, which has no offsets yet"
)


class PathCheck(NamedTuple):
    """The result of a check of the path: the size (0: no file), and whether bytes read earlier may have changed."""

    size: int
    is_other_content: bool


class GrowingFile:
    """Reads a file at byte positions.

    The path counts instead of the file behind it, as after a restart: if a file is replaced by one that begins with
    what
    was read, the new one is followed.
    """

    def __init__(self, path: str, start: FileStart) -> None:
        """`start` recognises the file."""
        self.path = path
        self._start = start
        self._descriptor: int | None = None
        self._identity: tuple[int, int] | None = None
        self._size = 0
        self._is_missed = False

    def look(self, position: int) -> PathCheck:
        """Check the path, and open the file there.

        Raises FatalError if the file ends before `position`, or is not the one that was read up to there.
        """
        try:
            found = os.stat(self.path)
            is_replaced = (found.st_dev, found.st_ino) != self._identity
            is_other = is_replaced or found.st_size < self._size
            if found.st_size < position:
                raise FatalError(self._shrunk(position, found.st_size))
            read_last = self._before(position) if is_replaced else b""
            if is_replaced:
                self._open()
        except FileNotFoundError:
            self._report_missing()
            return PathCheck(0, is_other_content=False)
        except OSError as error:
            raise FatalError(f"{self.path} cannot be read: {error.strerror}") from error
        if is_other or found.st_size != self._size:
            self._check(position, read_last)
        self._size = found.st_size
        return PathCheck(found.st_size, is_other)

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

    def _before(self, position: int) -> bytes:
        """Return what is before a position in the open file, if there is one and it can still be read."""
        if self._descriptor is None:
            return b""
        begin = max(0, position - _COMPARED_BYTES)
        try:
            return os.pread(self._descriptor, position - begin, begin)
        except OSError:  # it was removed, and its file system does not keep such files
            return b""

    def _check(self, position: int, read_last: bytes) -> None:
        if (encoding := marked_encoding(self.read(0, 4))) is not None:
            raise FatalError(
                f"{self.path} is encoded in {encoding}, in which line ends are not single bytes: convert it to "
                f"UTF-8, for example with iconv -f {encoding} -t UTF-8"
            )
        is_same = self._start.is_of(self.read, position)
        if not is_same or (read_last and self.read(position - len(read_last), len(read_last)) != read_last):
            raise FatalError(
                f"{self.path} is not the file that was read up to byte {position}: it was rotated or "
                f"replaced. {_ADVICE}"
            )

    def _open(self) -> None:
        self.close()
        if (fault := file_limit().fault(self.path)) is not None:
            raise FatalError(f"file={self.path}: {fault}")
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
            f"{_ADVICE}"
        )
