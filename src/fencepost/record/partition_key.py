"""Source partitions as keys, which differ if they differ in the offsets topic, also by their JSON types.

To Python, 1, 1.0 and True are equal. In JSON, and so in the topic and in Kafka Connect, they are three values.
"""

from collections.abc import Mapping
from typing import Any

PartitionKey = tuple[tuple[str, Any], ...]


class _Key(tuple[tuple[str, Any], ...]):
    """The sorted items of a source partition. Equal to a key or a plain tuple with the same values and types."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple) and tuple.__eq__(self, other) and _kinds(self) == _kinds(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


def partition_key(partition: Mapping[str, Any]) -> PartitionKey:
    """Return a source partition as a hashable key: its sorted items.

    >>> from fencepost.api import partition_key
    >>> partition_key({"table": "orders", "shard": 1})
    (('shard', 1), ('table', 'orders'))
    >>> partition_key({"shard": 1}) == partition_key({"shard": 1.0})
    False
    """
    return _Key(sorted(partition.items()))


def is_same(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Say whether two source offsets, or two source partitions, are equal as JSON."""
    if one is None or other is None:
        return one is other
    return partition_key(one) == partition_key(other)


def _kinds(items: PartitionKey) -> list[object]:
    return [_kind(value) for _, value in items]


def _kind(value: Any) -> object:
    if value is True or value is False:
        return bool
    if isinstance(value, float):
        return float.__repr__(value)  # -0.0 differs from 0.0
    return int if isinstance(value, int) else None
