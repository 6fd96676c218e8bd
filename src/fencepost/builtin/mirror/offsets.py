"""Checks of source offsets that an administrator sets for a connector of a mirror."""

from collections.abc import Collection, Mapping
from typing import Any

from fencepost.api import ConnectError

_PARTITION, _OFFSET = "partition", "offset"
_LARGEST = (1 << 31) - 1

Alterations = Mapping[tuple[tuple[str, Any], ...], Mapping[str, Any] | None]


def check_offsets(
    offsets: Alterations, *, texts: Collection[str], has_partition: bool = False, is_read: bool = False
) -> None:
    """Check offsets; tombstones are always accepted.

    Args:
        texts: The keys of a source partition that hold text.
        has_partition: Whether it also holds the number of a partition.
        is_read: Whether the connector reads its offsets; if not, they must be 0.

    Raises:
        ConnectError: The first fault, with what is expected.
    """
    for items, offset in offsets.items():
        if offset is None:
            continue
        partition = dict(items)
        for key in texts:
            if not isinstance(partition.get(key), str):
                raise ConnectError(f"The source partition {partition} needs a text as '{key}'")
        if has_partition and not _is_number(partition.get(_PARTITION), _LARGEST):
            raise ConnectError(f"The source partition {partition} needs a partition number as '{_PARTITION}'")
        if not (_is_number(offset.get(_OFFSET), (1 << 63) - 1 if is_read else 0) or (is_read and _is_first(offset))):
            expected = "a whole number, 0 or more," if is_read else "0, because it is not read,"
            raise ConnectError(f"The source offset {offset} of {partition} needs {expected} as '{_OFFSET}'")


def _is_first(offset: Mapping[str, Any]) -> bool:
    """Say whether it is the offset that a connector shows for a partition of which nothing is copied yet."""
    return offset.get(_OFFSET) == -1 and not isinstance(offset[_OFFSET], bool)


def _is_number(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
