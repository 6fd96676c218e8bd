"""How many rows a file may have so that it does not exceed its limit of bytes.

Spark cuts files by rows, and their size is known only after they are written. If a file is too large, the epoch is
written again with smaller files before it is published. The next epochs start with what was learned.
"""

_ROOM = 0.9  # rows differ
_WASTED = 0.7


class FileCut:
    """The cut of one sink's files, as learned so far."""

    def __init__(self, rows_max: int, bytes_max: int) -> None:
        """0 is no limit."""
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self.rows = rows_max
        """The maximal number of rows in a file; 0: all."""

    def is_too_large(self, size_bytes: int) -> bool:
        """Say whether a file has more bytes than allowed, unless it has only one row."""
        return bool(self._bytes_max) and size_bytes > self._bytes_max and self.rows != 1

    def narrow(self, rows: int, size_bytes: int) -> None:
        """Use fewer rows in a file: `rows` rows took `size_bytes` bytes, which is too much."""
        self.rows = max(1, self._fitting(rows, size_bytes))

    def widen(self, size_bytes: int) -> None:
        """Use more rows in a file if the largest of the cut ones is much smaller than allowed."""
        if self._bytes_max and 0 < size_bytes < _WASTED * self._bytes_max:
            more = self._fitting(self.rows, size_bytes)
            self.rows = min(more, self._rows_max) if self._rows_max else more

    def _fitting(self, rows: int, size_bytes: int) -> int:
        return int(_ROOM * rows * self._bytes_max / size_bytes)
