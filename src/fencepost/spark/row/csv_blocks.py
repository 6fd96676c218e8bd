"""Blocks of lines, as bytes: from lines that Spark has read, or from files that executors open themselves.

A block consists of whole lines of one file; each ends with a line feed, except perhaps the last.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from fencepost.spark.row.json_text import bytes_of, constant

VALUE_COLUMN = "value"
LINE_END, _RETURN = b"\n", b"\r"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_READ_BYTES = 1 << 20
_LONGEST_LINE_BYTES = 64 << 20

Block = tuple[str | None, bytes]
"""The name of a file (`mark`; None if there is only one), and some of its lines."""


class LeftToSparkError(Exception):
    """The lines are not plain: Spark has to read them."""


def blocks_of_lines(batches: Iterable[Any], mark: str) -> Iterator[Block]:
    """Yield the lines of Arrow batches with one line per row in `value`."""
    for batch in batches:
        lines = batch.column(VALUE_COLUMN)
        if mark not in batch.schema.names:
            if batch.num_rows:
                yield None, _joined(lines)
            continue
        start = 0
        for file, run in groupby(batch.column(mark).to_pylist()):
            count = sum(1 for _ in run)
            yield file, _joined(lines.slice(start, count))
            start += count


def _joined(lines: Any) -> bytes:
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines.cast(pa.binary()))
    return bytes(memoryview(bytes_of(pc.binary_join(whole, constant(LINE_END)))))


def blocks_of_files(
    batches: Iterable[Any], mark: str, read_bytes: int = _READ_BYTES, longest_line_bytes: int = _LONGEST_LINE_BYTES
) -> Iterator[Block]:
    """Yield the lines of the files whose paths Arrow batches have in `value`. Raises OSError, LeftToSparkError."""
    for batch in batches:
        marks = batch.column(mark).to_pylist() if mark in batch.schema.names else [None] * batch.num_rows
        for path, file in zip(batch.column(VALUE_COLUMN).to_pylist(), marks, strict=True):
            for block in _blocks_of(path, read_bytes, longest_line_bytes):
                yield file, block


def _blocks_of(path: str, read_bytes: int, longest_line_bytes: int) -> Iterator[bytes]:
    """Yield the lines of a file, with line feeds instead of other line ends, and without a byte order mark."""
    rest, is_first = b"", True
    with open(path, "rb", buffering=0) as file:
        while read := file.read(read_bytes):
            lines, end, begun = read.rpartition(LINE_END)
            if end:
                yield _plain(rest + lines + end, is_first=is_first)
                rest, is_first = begun, False
            else:
                rest += read
            if len(rest) > longest_line_bytes:
                raise LeftToSparkError("lines are very long")
    if rest:
        yield _plain(rest, is_first=is_first)


def _plain(lines: bytes, *, is_first: bool) -> bytes:
    if is_first:
        lines = lines.removeprefix(BYTE_ORDER_MARK)
    if _RETURN in lines:
        lines = lines.replace(_RETURN + LINE_END, LINE_END)
        if _RETURN in lines:
            raise LeftToSparkError("there are carriage returns without line feeds")
    return lines
