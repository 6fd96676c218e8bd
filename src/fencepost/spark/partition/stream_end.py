"""Detects whether Spark sent *all* rows of a partition.

When a partition fails inside the JVM (a broken line in the middle of a file, a cancelled task), the JVM closes its end
of the pipe, and PyArrow takes a closed pipe for the end of the stream. The Python side sees an ordinary last row, and
would commit half a file as done. Only a JVM that has reached the end writes END_OF_STREAM after the rows. PySpark reads
it after the data source has returned; we peek at it, without consuming it, before the commit (E1).
"""

import struct
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.serializers import SpecialLengths

_END = struct.pack("!i", SpecialLengths.END_OF_STREAM)


class IncompleteRowsError(RuntimeError):
    """Spark stopped sending before the end of the partition; nothing may be committed as done."""


class _Watch:
    """Remembers the pipe of the current task: a Python worker runs one task at a time."""

    stream: Any = None
    is_installed = False


def watch_streams() -> None:
    """Remember the pipe from which rows are read from now on. Called in the Python worker, before any row is read."""
    if _Watch.is_installed:
        return
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer

    ArrowStreamSerializer.load_stream = _remembering(ArrowStreamSerializer.load_stream)
    _Watch.is_installed = True


def ensure_complete() -> None:
    """Return if Spark has sent every row; call this after the last one. Raises IncompleteRowsError."""
    stream = _Watch.stream
    if stream is None:
        raise IncompleteRowsError("this version of PySpark hands rows over in a way that Fencepost does not know")
    seen = bytes(stream.peek(len(_END))[: len(_END)])
    if not seen or not _END.startswith(seen):
        raise IncompleteRowsError("Spark ended the partition before its last row; its own error says why")


def _remembering(load_stream: Callable[[Any, Any], Iterator[Any]]) -> Callable[[Any, Any], Iterator[Any]]:
    def load(self: Any, stream: Any) -> Iterator[Any]:
        _Watch.stream = stream
        return load_stream(self, stream)

    return load
