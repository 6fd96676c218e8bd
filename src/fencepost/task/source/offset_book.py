"""A task's record of its source offsets: the committed ones, and those that wait for the next commit."""

from collections import deque
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from fencepost.api import FatalError
from fencepost.record import PartitionKey, is_same, partition_key

Offset = Mapping[str, Any] | None


class OffsetBook:
    """Offsets in the order in which the task produced them (E7). One thread."""

    def __init__(
        self,
        committed: Iterable[tuple[Mapping[str, Any], Offset]] = (),
        spellings: Mapping[bytes, bytes] = MappingProxyType({}),
    ) -> None:
        """`spellings` maps our key bytes of a partition to those that the topic has for it."""
        self.spellings = spellings
        self._committed: dict[PartitionKey, Offset] = {partition_key(p): o for p, o in committed}
        self._own: dict[PartitionKey, Offset] = {}  # what this incarnation committed; None: it removed the offset
        self._pending: dict[PartitionKey, Offset] = {}
        self._sealed: deque[dict[PartitionKey, Offset]] = deque()
        self._partitions: dict[PartitionKey, Mapping[str, Any]] = {}

    def add(self, offsets: Iterable[tuple[Mapping[str, Any], Offset]]) -> None:
        """Add the position that the task has reached with records sent, filtered or dropped."""
        for partition, offset in offsets:
            if offset is None:
                continue
            if not (isinstance(offset, Mapping) and isinstance(partition, Mapping)):
                raise FatalError(_no_mapping(partition, offset))
            key = partition_key(partition)
            self._pending[key] = dict(offset)  # the author may change the original
            self._partitions[key] = partition

    def updated_by(self, update: Mapping[PartitionKey, Offset]) -> None:
        """Merge the checked result of `update_offsets` (KIP-910), or removals; unchanged offsets are left out."""
        for key, offset in update.items():
            if key in self._pending or self._is_change(key, offset):
                self._pending[key] = offset
                self._partitions.setdefault(key, dict(key))

    def _is_change(self, key: PartitionKey, offset: Offset) -> bool:
        """Say whether an offset will differ from the committed one after the commits in progress.

        A tombstone does so once even if no offset is known: another task may have committed what it removes.
        """
        for made in (*reversed(self._sealed), self._own, self._committed):
            if key in made:
                return not is_same(made[key], offset)
        return True

    @property
    def has_changes(self) -> bool:
        """Say whether the pending offsets would change committed ones."""
        return any(self._is_change(key, offset) for key, offset in self._pending.items())

    @property
    def pending(self) -> Mapping[PartitionKey, Offset]:
        """Return a read-only view, including the offsets' values, of what the next commit would write now."""
        return MappingProxyType({k: None if o is None else MappingProxyType(o) for k, o in self._pending.items()})

    def to_write(self) -> list[tuple[Mapping[str, Any], Offset]]:
        return [(self._partitions[key], offset) for key, offset in self._pending.items()]

    def seal(self) -> None:
        """Assign the pending offsets to a commit that has begun."""
        self._sealed.append(self._pending)
        self._pending = {}

    @property
    def is_committing(self) -> bool:
        """Say whether a commit has begun whose outcome is not known yet."""
        return bool(self._sealed)

    def committed(self) -> None:
        """Record that the oldest commit begun has succeeded."""
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
        """Return the committed offset of a source partition; empty if it has none."""
        return dict(self._committed.get(partition_key(partition)) or {})

    def all_committed(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return [(dict(key), dict(offset)) for key, offset in self._committed.items() if offset is not None]

    def differs_from(self, stored: Iterable[tuple[Mapping[str, Any], Offset]]) -> bool:
        """Say whether stored offsets differ from what this task committed for the same partitions."""
        found = {partition_key(p): o for p, o in stored}
        return any(not is_same(found.get(key), offset) for key, offset in self._own.items())


def checked_update(update: Any, task: str) -> dict[PartitionKey, Offset]:
    """Return the result of a task's `update_offsets` as the book keeps it: sorted keys, copies of the offsets.

    None and an empty map give an empty one: they change nothing. Raises FatalError, which says what to return.
    """
    if update is None:
        return {}
    if not isinstance(update, Mapping):
        raise FatalError(f"update_offsets of task {task} returned {type(update).__name__}; {_EXPECTED}")
    return {_checked_key(key, task): _checked_offset(offset, key, task) for key, offset in update.items()}


def _no_mapping(partition: Any, offset: Any) -> str:
    name, value = ("source_offset", offset) if isinstance(partition, Mapping) else ("source_partition", partition)
    return (
        f"the {name} of a record is {value!r}, which is no mapping: give it a name, such as {{'position': {value!r}}}; "
        "`context.offset` returns the same mapping at the next start"
    )


_EXPECTED = (
    "return None, or a mapping of source partitions, each as the tuple of its items, to source offsets "
    "(None removes the offset)"
)


def _checked_key(key: Any, task: str) -> PartitionKey:
    try:
        return partition_key(dict(key))
    except (TypeError, ValueError):
        raise FatalError(f"update_offsets of task {task} returned the source partition {key!r}; {_EXPECTED}") from None


def _checked_offset(offset: Any, key: Any, task: str) -> Offset:
    if offset is not None and not isinstance(offset, Mapping):
        raise FatalError(f"update_offsets of task {task} returned {offset!r} for {dict(key)}; {_EXPECTED}")
    return None if offset is None else dict(offset)
