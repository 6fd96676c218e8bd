"""The first bytes of a growing file, by which it is recognised."""

import re
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, overload

MOST_BYTES = 16 * 1024

POSITION = "position"
FINGERPRINT = "fingerprint"

Read = Callable[[int, int], bytes]


class FileStart:
    """What is known of a file's first bytes: those that were read or, at first, the committed fingerprint."""

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
    """Return how many bytes a fingerprint covers; 0 if it is not one."""
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

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> "FileOffsets": ...
    def __getitem__(self, index: int | slice) -> "dict[str, Any] | FileOffsets":
        if isinstance(index, slice):
            return FileOffsets(self._positions[index], self._start)
        position = self._positions[index]
        return {POSITION: position, FINGERPRINT: self._start.fingerprint(position)}
