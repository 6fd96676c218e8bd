"""Files of lines, made up, of equal length."""

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

FILLING = "abcdefghijklmnopqrstuvwxyz0123456789" * 30
_BLOCK = 100_000


def write_lines(path: Path, count: int, width: int = 100) -> None:
    """Write `count` lines of `width` bytes and a newline; each begins with its number."""
    _write(path, count, lambda number: line(number, FILLING, width))


def _write(path: Path, count: int, text: Callable[[int], str]) -> None:
    with path.open("w") as out:
        for begin in range(0, count, _BLOCK):
            out.write("".join(text(n) + "\n" for n in range(begin, min(begin + _BLOCK, count))))


def line(number: int, filling: str, width: int) -> str:
    """Line `number`."""
    return f"{number:012d} {filling}"[:width]


def number_of(value: bytes) -> int:
    """The number of a line."""
    return int(value[:12])


_FIRST_MS, _STEP_MS = 1_764_171_585_123, 37


def write_times(path: Path, count: int) -> None:
    """Write `count` moments in milliseconds since 1970, all different, a line each."""
    _write(path, count, lambda number: str(_FIRST_MS + _STEP_MS * number))


def number_of_time(value: bytes) -> int:
    """The number of a moment that a chain of transforms has made a date, in the field `at` of JSON."""
    at = datetime.datetime.fromisoformat(json.loads(value)["at"])
    return round((at.timestamp() * 1000 - _FIRST_MS) / _STEP_MS)


class Lines(NamedTuple):
    """A kind of lines: their width without the newline, what writes them, and the number of a line by its record."""

    key: str
    width: int
    write: Callable[[Path, int], None]
    number: Callable[[bytes], int]


TEXTS = Lines("lines", 100, write_lines, number_of)
TIMES = Lines("times", 13, write_times, number_of_time)
