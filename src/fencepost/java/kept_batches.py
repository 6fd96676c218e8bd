"""The raw records of a sink task that it may still report: Java names them by place and offset alone."""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from fencepost.record import BinaryColumn, Repeated, SinkBatch, SinkRecord, TopicPartition

_OF_A_VALUE = 500


class KeptBatches:
    """Batches, until all of their records are covered by what the task allows to be committed."""

    def __init__(self) -> None:
        self._kept: list[_Kept] = []
        self.size_bytes = 0
        """About how much memory they take."""

    @property
    def places(self) -> set[TopicPartition]:
        """Return the partitions of the records that are kept."""
        return {place for kept in self._kept for place in kept.batch.places}

    def add(self, batch: SinkBatch) -> None:
        if len(batch):
            self._kept.append(_Kept(batch))
            self.size_bytes += self._kept[-1].size_bytes

    def find(self, place: TopicPartition, offset: int) -> SinkRecord | None:
        """Return a record; None if it is not kept."""
        for kept in reversed(self._kept):
            row = kept.rows.get((place, offset))
            if row is not None:
                return kept.batch.record(row)
        return None

    def forget_below(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Forget the batches all of whose records are below these offsets of their partitions."""
        self._keep([kept for kept in self._kept if not kept.is_below(offsets)])

    def forget(self, places: Collection[TopicPartition]) -> None:
        """Forget the records of partitions that are released."""
        left = [(kept, kept.batch.without(frozenset(places))) for kept in self._kept]
        self._keep([kept if batch is kept.batch else _Kept(batch) for kept, batch in left if len(batch)])

    def _keep(self, kept: "list[_Kept]") -> None:
        self._kept = kept
        self.size_bytes = sum(each.size_bytes for each in kept)


class _Kept:
    """A batch, and where each of its records is once one is looked for."""

    def __init__(self, batch: SinkBatch) -> None:
        self.batch = batch
        self.size_bytes = size_of(batch)

    @cached_property
    def rows(self) -> dict[tuple[TopicPartition, int], int]:
        return {at: row for row, at in enumerate(zip(self.batch.places, self.batch.offsets, strict=True))}

    def is_below(self, offsets: Mapping[TopicPartition, int]) -> bool:
        places = zip(self.batch.places, self.batch.offsets, strict=True)
        return all(offset < offsets.get(place, -1) for place, offset in places)


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
