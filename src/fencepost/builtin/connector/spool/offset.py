"""The source partitions and offsets of SpoolDirectorySource."""

from collections.abc import Mapping
from typing import Any

from fencepost.api import ConnectError, Split
from fencepost.builtin.connector.file_system.spark import FoundFile

_FILE, _SIZE, _MTIME = "file", "size", "mtime"
_DONE, _ROWS, _READING = "done", "rows", "reading"


def split_of(file: FoundFile) -> Split:
    """Return the split of a file."""
    return Split(
        partition={_FILE: file.path, _SIZE: file.size, _MTIME: file.modified_ms},
        order=(file.modified_ms, file.path),
        is_single_file=True,
        size_bytes=file.size,
    )


def file_of(split: Split) -> FoundFile:
    """Return the file of a split; for a foreign partition, a file that does not exist."""
    path, size, modified_ms = (split.partition.get(name, -1) for name in (_FILE, _SIZE, _MTIME))
    return FoundFile(path, size, modified_ms)


def check_alteration(partition: Mapping[str, Any], offset: Mapping[str, Any]) -> None:
    """Raise ConnectError for an offset with which a task could not continue. A file marked as done is never read."""
    is_file = isinstance(partition.get(_FILE), str) and all(_is_whole(partition.get(n)) for n in (_SIZE, _MTIME))
    if not is_file or len(partition) != 3:
        raise ConnectError(
            f"Partition objects should contain the keys '{_FILE}' (a text), '{_SIZE}' and '{_MTIME}' (whole numbers) "
            "and no others, as GET shows them"
        )
    unknown = sorted(set(offset) - {_DONE, _ROWS, _READING})
    if unknown:
        raise ConnectError(
            f"Offset objects should either be null or contain '{_DONE}' or '{_ROWS}', not '{unknown[0]}'"
        )
    if not isinstance(offset.get(_DONE, False), bool):
        raise ConnectError(f"The value for the '{_DONE}' key in the offset is expected to be a Boolean value")
    if not offset.get(_DONE) and _ROWS not in offset:
        raise ConnectError(f"Offset objects should either be null or contain '{_DONE}' (true) or '{_ROWS}'")
    if not _is_whole(offset.get(_ROWS, 0)):
        raise ConnectError(f"The value for the '{_ROWS}' key in the offset should be a non-negative whole number")
    if not isinstance(offset.get(_READING, ""), str):
        raise ConnectError(f"The value for the '{_READING}' key in the offset should be a text, or be left out")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
