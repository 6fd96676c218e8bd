"""Rows of one partition that wait until they fill a batch."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from fencepost.kafka.codec.columns import joined_times
from fencepost.kafka.codec.encode import Rows
from fencepost.kafka.codec.encode_cut import Limits, cuts
from fencepost.record.binary_column import size_bytes

_AROUND = 20  # about what a record takes besides its key, value and headers
_BINARY = pa.binary()
_NO_HEADERS = b"\0"


class RowQueue:
    """Rows in order, which are returned in pieces that each make a batch within the limits."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pieces: list[Rows] = []
        self._count = 0
        self.size_bytes = 0

    def add(self, rows: Rows) -> list[Rows]:
        """Queue rows (at least one). Returns the full batches."""
        self._wait(rows)
        if self.size_bytes < self._limits.cut_bytes and self._count < self._limits.records:
            return []
        *full, last = self.rest()
        self._wait(last)
        return full

    def _wait(self, rows: Rows) -> None:
        self._pieces.append(rows)
        self._count += len(rows)
        self.size_bytes += _AROUND * len(rows) + sum(map(size_bytes, rows.columns))

    def rest(self) -> list[Rows]:
        """Remove and return everything, as batches."""
        if not self._pieces:
            return []
        whole = joined(self._pieces)
        self._pieces, self._count, self.size_bytes = [], 0, 0
        return [whole.slice(*each) for each in cuts(whole, self._limits)]


def joined(pieces: Sequence[Rows]) -> Rows:
    """Return rows (at least one piece) as one, in order."""
    if len(pieces) == 1:
        return pieces[0]
    return Rows(
        pa.concat_arrays([each.values for each in pieces]),
        joined_times([(each.timestamps, len(each)) for each in pieces]),
        _column([(each.keys, len(each)) for each in pieces], None),
        _column([(each.headers, len(each)) for each in pieces], _NO_HEADERS),
    )


def _column(parts: Sequence[tuple[Any, int]], missing: bytes | None) -> Any:
    if all(part is None for part, _ in parts):
        return None
    absent = pa.scalar(missing, _BINARY)
    return pa.concat_arrays([pa.repeat(absent, count) if part is None else part for part, count in parts])
