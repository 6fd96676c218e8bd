"""Files of lines, made up, of equal length."""

from pathlib import Path

FILLING = "abcdefghijklmnopqrstuvwxyz0123456789" * 30
_BLOCK = 100_000


def write_lines(path: Path, count: int, width: int = 100) -> None:
    """Write `count` lines of `width` bytes and a newline; each begins with its number."""
    with path.open("w") as out:
        for begin in range(0, count, _BLOCK):
            out.write("".join(line(n, FILLING, width) + "\n" for n in range(begin, min(begin + _BLOCK, count))))


def line(number: int, filling: str, width: int) -> str:
    """Line `number`."""
    return f"{number:012d} {filling}"[:width]


def number_of(value: bytes) -> int:
    """The number of a line."""
    return int(value[:12])
