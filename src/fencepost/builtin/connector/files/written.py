"""The files that Spark has written into a directory; their names contain the number of the frame's partition."""

import re
from dataclasses import dataclass

from fencepost.api import FatalError
from fencepost.builtin.connector.files.store import FilesStore

_NAME = re.compile(r"part-(?P<part>\d+)-[0-9a-f-]{36}[.-]c(?P<roll>\d+)(?P<end>\..+)")
_TEMPORARY = "_temporary/"


@dataclass(frozen=True)
class WrittenFile:
    """One written file."""

    path: str
    directory: str
    """The directory of `partition.by`, with a trailing slash, or ""."""
    part: int
    roll: int
    """The number of the file among those into which Spark cut a partition."""
    end: str
    size_bytes: int


def written_files(store: FilesStore, place: str) -> list[WrittenFile]:
    """Return the files below a place. Raises FatalError for a name that is not one of Spark's own."""
    found = []
    for file, size_bytes in store.files(place).items():
        directory, slash, name = file.rpartition("/")
        if name.startswith((".", "_")) or file.startswith(_TEMPORARY):
            continue
        named = _NAME.fullmatch(name)
        if named is None:
            raise FatalError(
                f"{store.at(place)}/{file} is not a name that Spark gives by default, so it is unknown which records "
                "it holds: do not set mapreduce.output.basename or the names of committers"
            )
        part, roll = int(named["part"]), int(named["roll"])
        found.append(WrittenFile(f"{place}/{file}", directory + slash, part, roll, named["end"], size_bytes))
    return found
