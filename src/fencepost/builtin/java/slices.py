"""How many batches of `max.poll.records` a sink's task sends to its host at once.

Java's `put` gets each batch in a call of its own. Crossing costs this process about as much for several of them as
for one. Tasks whose calls are slow, or which ask for something that comes before the next call, get one at a time: the
records that they leave have to be read again.
"""

from collections.abc import Sequence

from fencepost.record import BinaryColumn, Repeated, SinkBatch

_MOST_BATCHES = 16
_MOST_BYTES = 1 << 20  # the host has their records in memory beside what it makes of them
_QUICK_S = 0.05
_OF_A_VALUE = 500


class Slices:
    """Grows by one batch for each crossing that was quick and uneventful, and halves after a slow one.

    `is_single`: one batch at a time, as its records were transformed in this process, which happens to each only once.
    """

    def __init__(self, most_rows: int, *, is_single: bool = False) -> None:
        self._most_rows = most_rows
        self._most_batches = 1 if is_single else _MOST_BATCHES
        self.batches = 1

    def cut(self, batch: SinkBatch) -> SinkBatch:
        """Return what is to be sent of a batch: its first records if they are large, but at least `most_rows`."""
        count = len(batch)
        if count > self._most_rows and (size := size_of(batch)) > _MOST_BYTES:
            return batch.part(0, max(self._most_rows, count * _MOST_BYTES // size))
        return batch

    def adapt(self, sent: SinkBatch, took_s: float, *, is_uneventful: bool) -> None:
        """Heed how long it took to put a batch. `is_uneventful`: all of it was put, and nothing was asked for."""
        if not is_uneventful:
            self.batches = 1
        elif took_s > _QUICK_S or size_of(sent) > _MOST_BYTES:
            self.batches = max(1, self.batches // 2)
        elif len(sent) > (self.batches - 1) * self._most_rows:
            self.batches = min(self._fitting(sent), self.batches + 1)

    def _fitting(self, sent: SinkBatch) -> int:
        """Return how many batches of such records are small enough."""
        return max(1, min(self._most_batches, _MOST_BYTES * len(sent) // (size_of(sent) + 1) // self._most_rows))


def size_of(batch: SinkBatch) -> int:
    """Return about how many bytes the keys and values of a batch take."""
    return _size(batch.keys) + _size(batch.values)


def _size(column: Sequence[bytes | None]) -> int:
    """Return about how many bytes a column takes; values of a mixed chain are not measured one by one."""
    if isinstance(column, BinaryColumn):
        return column.size_bytes
    if isinstance(column, Repeated) and column.value is None:
        return 0
    return sum(len(each) if isinstance(each, bytes) else _OF_A_VALUE for each in column if each is not None)
