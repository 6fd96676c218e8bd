"""The records of a log in order, each as a number that is the same for the same record."""

from collections.abc import Iterator

from fencepost.kafka.read.produced import Produced


class RecordStream:
    """Records of which the first ones can be looked at. Of each there is its offset, and a hash of what it contains.

    Hashes are those of this process: equal keys, values and headers give the same.
    """

    def __init__(self, pieces: Iterator[Produced]) -> None:
        self._pieces = pieces
        self.offsets: list[int] = []
        self.hashes: list[int] = []

    def fill(self, count: int) -> int:
        """Read until there are `count` records to look at, or no more come. Returns how many there are."""
        while len(self.hashes) < count and (piece := next(self._pieces, None)) is not None:
            self.offsets += range(piece.offset, piece.offset + len(piece))
            self.hashes += _hashes(piece)
        return len(self.hashes)

    def skip(self, count: int) -> None:
        """Drop records from the beginning."""
        del self.offsets[:count], self.hashes[:count]


def _hashes(records: Produced) -> Iterator[int]:
    keys, values = records.keys.to_pylist(), records.values.to_pylist()
    if records.headers is None:
        return map(hash, zip(keys, values, strict=True))
    bare = [tuple(map(tuple, each)) for each in records.headers]
    rows = zip(keys, values, bare, strict=True)
    return (hash(row if row[2] else row[:2]) for row in rows)
