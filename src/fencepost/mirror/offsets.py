"""Checks of source offsets that an administrator gives to a connector of a mirror."""

from collections.abc import Collection, Mapping
from typing import Any

from fencepost.api import ConnectError

_PARTITION, _OFFSET = "partition", "offset"
_LARGEST = (1 << 31) - 1

Alterations = Mapping[tuple[tuple[str, Any], ...], Mapping[str, Any] | None]


def check_offsets(
    offsets: Alterations, *, texts: Collection[str], has_partition: bool = False, is_read: bool = False
) -> None:
    """Check offsets; tombstones are right for anything.

    Args:
        texts: which keys of a source partition hold text.
        has_partition: whether it holds the number of a partition, too.
        is_read: whether the connector reads its offsets; where it does not, they are 0.

    Raises:
        ConnectError: the first fault, with what is expected.
    """
    for items, offset in offsets.items():
        if offset is None:
            continue
        partition = dict(items)
        for key in texts:
            if not isinstance(partition.get(key), str):
                raise ConnectError(f"The source partition {partition} needs a text as '{key}'")
        if has_partition and not _is_number(partition.get(_PARTITION), _LARGEST):
            raise ConnectError(f"The source partition {partition} needs a number of a partition as '{_PARTITION}'")
        if not (_is_number(offset.get(_OFFSET), (1 << 63) - 1 if is_read else 0) or (is_read and _is_first(offset))):
            expected = "a whole number, 0 or more," if is_read else "0, for it is not read,"
            raise ConnectError(f"The source offset {offset} of {partition} needs {expected} as '{_OFFSET}'")


def _is_first(offset: Mapping[str, Any]) -> bool:
    """Say whether it is the offset of a partition of which nothing is copied, as a connector shows it."""
    return offset.get(_OFFSET) == -1 and not isinstance(offset[_OFFSET], bool)


def _is_number(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
