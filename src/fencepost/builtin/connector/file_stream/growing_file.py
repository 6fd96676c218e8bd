"""A file that other programs append to: opened when it appears, followed by its path."""

import logging
import os
import re
import stat
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from fencepost.api import FatalError
from fencepost.config.file_limit import file_limit
from fencepost.config.properties import marked_encoding

MOST_BYTES = 16 * 1024

POSITION = "position"
FINGERPRINT = "fingerprint"

Read = Callable[[int, int], bytes]


class FileStart:
    """A file's first bytes, as far as they were read, or at first the committed fingerprint."""

    def __init__(self, committed: object = None) -> None:
        """`committed` is the fingerprint of an offset; anything else is ignored."""
        self._committed = committed if isinstance(committed, str) and _length(committed) else None
        self._bytes = b""
        self._whole: str | None = None

    def is_of(self, read: Read, position: int) -> bool:
        """Say whether a file that was read up to a position still has the same beginning; `read(position, size)` reads
        it.
        """
        if self._committed is not None:
            is_same = fingerprint(read(0, _length(self._committed))) == self._committed
        else:
            is_same = read(0, len(self._bytes)) == self._bytes
        if is_same:
            self._committed = None
            self._bytes = self._bytes or read(0, min(position, MOST_BYTES))
        return is_same

    def extend(self, position: int, data: bytes) -> None:
        """Add bytes that were read at a position."""
        known = len(self._bytes)
        if position == known < MOST_BYTES:
            self._bytes += data[: MOST_BYTES - known]

    def fingerprint(self, position: int) -> str:
        """Return the fingerprint to commit with a position; it covers no byte after the position."""
        if position < MOST_BYTES:
            return fingerprint(self._bytes[:position])
        if self._whole is None:
            self._whole = fingerprint(self._bytes)
        return self._whole


def fingerprint(data: bytes) -> str:
    """Return the number of bytes, and their hash: `16:0123456789abcdef`."""
    return f"{len(data)}:{blake2b(data, digest_size=8).hexdigest()}"


def _length(committed: str) -> int:
    found = re.fullmatch(r"(\d{1,7}):[0-9a-f]{16}", committed)
    return int(found[1]) if found else 0


class FileOffsets(Sequence[dict[str, Any]]):
    """Source offsets of lines: the position after each, and the fingerprint of the file's start up to there."""

    __slots__ = ("_positions", "_start")

    def __init__(self, positions: Sequence[int], start: FileStart) -> None:
        self._positions = positions
        self._start = start

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return FileOffsets(self._positions[index], self._start)
        position = self._positions[index]
        return {POSITION: position, FINGERPRINT: self._start.fingerprint(position)}


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

    The path counts, as after a restart: a file that replaces another one and begins with what was read is followed.
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
                raise FatalError(
                    f"{self.path} has {found.st_size} bytes, but it was read up to byte {position}: it was truncated "
                    f"or replaced. {_ADVICE}"
                )
            read_last = self._before(position) if is_replaced else b""
            if is_replaced:
                self._open()
        except FileNotFoundError:
            if not self._is_missed:
                log.warning("%s does not exist; waiting for it", self.path)
            self._is_missed = True
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
        """Return the bytes before a position in the open file, if it can still be read."""
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
