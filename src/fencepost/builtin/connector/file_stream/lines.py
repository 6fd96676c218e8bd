"""Lines of a growing file, each with the byte position after it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from fencepost.builtin.connector.file_stream.growing_file import FileStart, GrowingFile
from fencepost.record import BinaryColumn

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
