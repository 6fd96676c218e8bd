"""Lines as columns: split and joined by Arrow, so that no line becomes a Python object."""

import struct
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.builtin.connector.file_stream.lines import CompleteLines, split_lines
from fencepost.record import BinaryColumn
from fencepost.record.binary_column import lines, size_bytes

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
