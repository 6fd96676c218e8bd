"""Lines of a growing file, each with the byte position after it.

Other programs append to the file: it is opened when it appears, and followed by its path. Lines are split into columns,
and joined, by Arrow, so that none becomes a Python object.
"""

import logging
import os
import re
import stat
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import accumulate
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.api import FatalError
from fencepost.config.connector_limit import file_limit
from fencepost.config.file import marked_encoding
from fencepost.record import BinaryColumn
from fencepost.record.binary_column import lines, size_bytes

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


CHUNK_BYTES = 256 * 1024
MOST_HELD_BYTES = 16 * 1024 * 1024
MOST_SCANNED_CHUNKS = 64


class LinePositions(Sequence[int]):
    """The byte position after each line; computed only when one other than the last is asked for."""

    __slots__ = ("_end", "_ending", "_line_ends", "_lines")

    def __init__(self, lines: Sequence[bytes], ending: int, end: int) -> None:
        self._lines = lines
        self._ending = ending
        self._end = end
        self._line_ends: list[int] | None = None

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, index: Any) -> Any:
        if self._lines and index in (-1, len(self._lines) - 1):
            return self._end
        if self._line_ends is None:
            sizes = [len(line) + self._ending for line in self._lines]
            self._line_ends = list(accumulate(sizes, initial=self._end - sum(sizes)))[1:]
        return self._line_ends[index]


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Complete lines without their ends, and the byte position after each."""

    lines: Sequence[bytes]
    positions: Sequence[int]


@dataclass(frozen=True, slots=True)
class CompleteLines:
    """Complete lines; `ending` is the length of each line end, or 0 if `sizes` has the total length of each line."""

    lines: list[bytes] | BinaryColumn
    ending: int = 1
    sizes: list[int] | None = None

    def size(self) -> int:
        """Return the bytes of the lines in the file, including line ends."""
        if self.sizes is not None:
            return sum(self.sizes)
        lines = self.lines
        own = lines.size_bytes if isinstance(lines, BinaryColumn) else sum(map(len, lines))
        return own + self.ending * len(lines)

    def joined(self, other: "CompleteLines") -> "CompleteLines | None":
        """Return both together, if their line ends and their kinds of storage are the same; else None."""
        if not self.lines:
            return other
        if self.sizes is not None or other.sizes is not None or self.ending != other.ending:
            return None
        if type(self.lines) is not type(other.lines):
            return None
        return CompleteLines(self.lines + other.lines, self.ending)  # type: ignore[operator]

    def cut(self, count: int) -> tuple["CompleteLines", "CompleteLines"]:
        """Return the first `count` lines and the others."""
        if count >= len(self.lines):
            return self, _NOTHING
        head, tail = (None, None) if self.sizes is None else (self.sizes[:count], self.sizes[count:])
        return CompleteLines(self.lines[:count], self.ending, head), CompleteLines(
            self.lines[count:], self.ending, tail
        )


_NOTHING = CompleteLines([])

SplitLines = Callable[[bytes], tuple[CompleteLines, int, int]]


class LineReader:
    """Returns the complete lines of a growing file, in order, from a position at the start of a line.

    A line ends with `\\n`, `\\r\\n` or `\\r`; a `\\r` at the end of the file is held until the next byte shows which it
    is. Nothing is returned twice, and each byte is read at most twice, however the file grows.
    """

    def __init__(self, path: str, position: int, start: FileStart, split: SplitLines | None = None) -> None:
        """`start` recognises the file; `split`: what is used instead of `split_lines`."""
        self._split_lines = split or split_lines
        self._start = start
        self._file = GrowingFile(path, start)
        self._position = position  # after the last line returned
        self._split_to = position  # after the last line held
        self._scanned_to = position  # no line ends between `_split_to` and here
        self._held = _NOTHING
        self._kept_back: CompleteLines | None = None  # lines whose ends differ from those held
        self._is_at_end = True

    def read(self, limit: int) -> LineBlock | None:
        """Return up to `limit` lines, or None if the file has no complete line now."""
        if not self._held.lines and self._is_at_end and not self._has_grown():
            return None
        self._top_up(limit)
        taken, self._held = self._held.cut(limit)
        if not self._held.lines and self._kept_back is not None:
            self._held, self._kept_back = self._kept_back, None
        return self._block(taken) if taken.lines else None

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _block(self, taken: CompleteLines) -> LineBlock:
        start = self._position
        self._position += taken.size()
        if taken.sizes is None:
            return LineBlock(taken.lines, LinePositions(taken.lines, taken.ending, self._position))
        return LineBlock(taken.lines, list(accumulate(taken.sizes, initial=start))[1:])

    def _has_grown(self) -> bool:
        change = self._file.look(self._split_to)
        if change.is_other_content:
            self._scanned_to = self._split_to
        return change.size > self._scanned_to

    def _top_up(self, limit: int) -> None:
        """Split more of the file until `limit` lines are held, or enough bytes, or the file ends."""
        for _ in range(MOST_SCANNED_CHUNKS):
            is_full = bool(self._held.lines) and self._split_to - self._position >= MOST_HELD_BYTES
            if len(self._held.lines) >= limit or self._kept_back is not None or is_full:
                return
            more = self._next_lines()
            joined = self._held.joined(more) if more.lines else self._held
            if joined is None:
                self._kept_back = more
            else:
                self._held = joined
            if self._is_at_end:
                return

    def _next_lines(self) -> CompleteLines:
        """Split the next chunk. If it has no complete line, the next scan continues after it."""
        chunk = self._file.read(self._scanned_to, CHUNK_BYTES)
        self._is_at_end = len(chunk) < CHUNK_BYTES
        found, used, scanned = self._split_lines(chunk)
        if not found.lines:
            self._scanned_to += scanned
            return found
        if self._scanned_to > self._split_to:
            begun = self._file.read(self._split_to, self._scanned_to - self._split_to)
            if len(begun) < self._scanned_to - self._split_to:
                self._is_at_end = True  # it is shrinking; the next check decides what that means
                return _NOTHING
            chunk = begun + chunk
            found, used, _ = self._split_lines(chunk)
        self._start.extend(self._split_to, chunk[:used])
        self._split_to += used
        self._scanned_to = self._split_to
        return found


def split_lines(data: bytes) -> tuple[CompleteLines, int, int]:
    """Return the complete lines in `data`, their bytes, and the bytes that need no second look.

    The two numbers differ only by an incomplete last line; a final `\\r` may be half of a line end, and so counts in
    neither.
    """
    if b"\r" not in data:
        lines = data.split(b"\n")
        rest = lines.pop()
        return CompleteLines(lines, 1), len(data) - len(rest), len(data)
    body = data[:-1] if data.endswith(b"\r") else data
    lines = body.splitlines()
    rest = b"" if body.endswith((b"\n", b"\r")) or not lines else lines.pop()
    used = len(body) - len(rest)
    if body.count(b"\r") == len(lines) == body.count(b"\n"):
        return CompleteLines(lines, 2), used, len(body)
    sizes = [len(line) for line in body[:used].splitlines(keepends=True)]
    return CompleteLines(lines, 0, sizes), used, len(body)


_BINARY = pa.binary()
_MOST_BYTES = (1 << 31) - 1  # of one array
_OFFSETS = struct.Struct("=ii")


def split_into_columns(data: bytes) -> tuple[CompleteLines, int, int]:
    """Do the same as `split_lines`, with an Arrow column of lines.

    Lines that end with `\\r` or `\\r\\n` are objects in between. What is too large for a column stays a list.
    """
    if len(data) > _MOST_BYTES:
        return split_lines(data)
    if b"\r" in data:
        found, used, scanned = split_lines(data)
        return replace(found, lines=BinaryColumn(pa.array(found.lines, _BINARY))), used, scanned
    used = data.rfind(b"\n") + 1
    return CompleteLines(BinaryColumn(_lines(data, used)), 1), used, len(data)


def joined_lines(values: pa.Array, most_bytes: int = _MOST_BYTES) -> list[memoryview | bytes]:
    """Return binary values without nulls as lines; in pieces, as a column has a maximal size."""
    count = len(values)
    if not count:
        return []
    if count > 1 and size_bytes(values) + count > most_bytes:
        return [
            each for half in (values[: count // 2], values[count // 2 :]) for each in joined_lines(half, most_bytes)
        ]
    return [memoryview(lines(values)), b"\n"]


def _lines(data: bytes, size: int) -> pa.Array:
    if not size:
        return pa.array([], _BINARY)
    whole = [None, pa.py_buffer(_OFFSETS.pack(0, size - 1)), pa.py_buffer(data)]
    return pc.split_pattern(pa.Array.from_buffers(_BINARY, 1, whole), pattern=b"\n").values
