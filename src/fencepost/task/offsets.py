"""The task's own record of its source offsets: what is committed, and what waits for the next commit."""

from collections import deque
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

PartitionKey = tuple[tuple[str, Any], ...]
Offset = Mapping[str, Any] | None


def partition_key(partition: Mapping[str, Any]) -> PartitionKey:
    """Return a source partition as a hashable key: its sorted items."""
    return tuple(sorted(partition.items()))


class OffsetBook:
    """Offsets in the order in which the task gave them (E7). One thread."""

    def __init__(self, committed: Iterable[tuple[Mapping[str, Any], Offset]] = ()) -> None:
        self._committed: dict[PartitionKey, Offset] = {partition_key(p): o for p, o in committed}
        self._own: dict[PartitionKey, Offset] = {}  # what this incarnation committed; None: it removed the offset
        self._pending: dict[PartitionKey, Offset] = {}
        self._sealed: deque[dict[PartitionKey, Offset]] = deque()
        self._partitions: dict[PartitionKey, Mapping[str, Any]] = {}

    def add(self, offsets: Iterable[tuple[Mapping[str, Any], Offset]]) -> None:
        """Note the position that records sent, filtered or dropped have brought the task to."""
        for partition, offset in offsets:
            if offset is None:
                continue
            key = partition_key(partition)
            self._pending[key] = offset
            self._partitions[key] = partition

    def updated_by(self, update: Mapping[PartitionKey, Offset] | None) -> None:
        """Merge what `update_offsets` returned (KIP-910); unchanged offsets are left out."""
        for key, offset in (update or {}).items():
            if key in self._pending or self._newest(key) != offset:
                self._pending[key] = offset
                self._partitions.setdefault(key, dict(key))

    def _newest(self, key: PartitionKey) -> Offset:
        """Return the offset that is committed once the commits under way are made."""
        return next((sealed[key] for sealed in reversed(self._sealed) if key in sealed), self._committed.get(key))

    @property
    def pending(self) -> Mapping[PartitionKey, Offset]:
        """What the next commit will write, read-only."""
        return MappingProxyType(self._pending)

    def to_write(self) -> list[tuple[Mapping[str, Any], Offset]]:
        return [(self._partitions[key], offset) for key, offset in self._pending.items()]

    def seal(self) -> None:
        """What is pending belongs to one commit, which has begun."""
        self._sealed.append(self._pending)
        self._pending = {}

    @property
    def is_committing(self) -> bool:
        """True while a commit has begun that is not known to be made."""
        return bool(self._sealed)

    def committed(self) -> None:
        """The oldest of the commits that have begun is made."""
        made = self._sealed.popleft()
        self._own.update(made)
        for key, offset in made.items():
            if offset is None:
                self._committed.pop(key, None)
            else:
                self._committed[key] = offset

    def drop_pending(self) -> None:
        self._pending.clear()

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any]:
        """Return the committed offset of a source partition, empty when there is none."""
        return dict(self._committed.get(partition_key(partition)) or {})

    def all_committed(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return [(dict(key), dict(offset)) for key, offset in self._committed.items() if offset is not None]

    def differs_from(self, stored: Iterable[tuple[Mapping[str, Any], Offset]]) -> bool:
        """Say whether the stored offsets of partitions that this task committed are not what it committed."""
        found = {partition_key(p): o for p, o in stored}
        return any(_plain(found.get(key)) != _plain(offset) for key, offset in self._own.items())


def _plain(offset: Offset) -> dict[str, Any] | None:
    return None if offset is None else dict(offset)
