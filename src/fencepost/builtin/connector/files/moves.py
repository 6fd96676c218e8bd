"""The names under which the files of an epoch are published. Pure functions.

A name depends only on the range, so every start that finishes an epoch publishes the same names.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from fencepost.api import FatalError, OffsetRange
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


NAME_MAX_BYTES = 255
"""The longest name of a file or directory, on every common file system."""

_DIGEST = 16


def shortened(name: str, most: int) -> str:
    """Return the name, or if it has more than `most` bytes, its beginning with a digest of the whole.

    The same name always gives the same result; a tilde precedes the digest.
    """
    data = name.encode()
    if len(data) <= most:
        return name
    kept = data[: most - _DIGEST - 1].decode(errors="ignore")
    return f"{kept}~{hashlib.sha256(data).hexdigest()[:_DIGEST]}"


_SHOWN = re.compile(r"(?P<stem>\+?[^+]+\+\d+\+\d+-\d+)[+.].*", re.DOTALL)
"""A published name. Names of topics have no plus."""
_PARTS = re.compile(
    r"(?P<topic>\+?[^+]+)\+(?P<partition>\d+)\+(?P<start>\d{20})-(?P<last>\d{20})(?:\+(?P<roll>\d+))?\..+", re.DOTALL
)

_TOPIC_MAX = 160
"""How many bytes of a topic a name contains: the rest has at most 95, with the longest numbers and extension."""


class ShownName(NamedTuple):
    """What the name of a published file says: `end` is excluded, and `topic` may be shortened."""

    topic: str
    partition: int
    start: int
    end: int
    roll: int


def shown_parts(name: str) -> ShownName | None:
    """Return what the name of a file says; None for a file that no files sink has published."""
    found = _PARTS.fullmatch(name)
    if found is None:
        return None
    topic, partition, start, last, roll = found.groups(default="0")
    return ShownName(topic, int(partition), int(start), int(last) + 1, int(roll))


def names_of_topic(topic: str) -> tuple[str, str]:
    """Return how names of files begin that hold records of a topic, as they are now and as they once were."""
    shown, whole = (each(OffsetRange(topic, 0, 0, 1)).rsplit("+", 2)[0] for each in (_stem, _whole_stem))
    return shown, whole


def moves_of(files: Sequence[WrittenFile], ranges: Sequence[OffsetRange], kind: str, is_cut: bool) -> dict[str, str]:
    """Return the path at which each file of an epoch is published, by the path at which it was written.

    `is_cut`: a range may have several files. Their names are numbered then, and also if Spark has cut files itself.
    Raises FatalError if two files would have the same name.
    """
    is_cut = is_cut or any(file.roll for file in files)
    moves = {}
    for file in files:
        shown = shown_name(ranges[file.part], file.roll if is_cut else None, file.end, kind)
        moves[file.path] = f"{file.directory}{shown}"
    name, count = max(Counter(moves.values()).items(), key=lambda each: each[1], default=("", 0))
    if count > 1:
        raise FatalError(
            f"{count} files of one epoch would be published as {name}: Spark wrote several files for a range, and "
            "their names do not tell them apart. Remove the writer.* settings that make it do so"
        )
    return moves


def number_of(attempt: str) -> int | None:
    """Return the number of the epoch to which a staging directory belongs; None for other names."""
    number = attempt.partition("-")[0]
    return int(number) if number.isdigit() else None


def moves_for(moves: Mapping[str, str], ranges: Sequence[OffsetRange]) -> dict[str, str]:
    """Return the moves that publish files of these ranges."""
    wanted = {stem for range_ in ranges for stem in (_stem(range_), _whole_stem(range_))}
    return {source: shown for source, shown in moves.items() if _stem_of(shown) in wanted}


def shown_name(range_: OffsetRange, roll: int | None, end: str, kind: str) -> str:
    """Return the name of a file: topic, partition, first and last possible offset, and its number among several.

    Readers ignore names that start with a dot or an underscore.
    """
    rolled = "" if roll is None else f"+{roll:05d}"
    return f"{_stem(range_)}{rolled}{end.replace('.txt', f'.{kind}', 1)}"


def _stem_of(shown: str) -> str:
    found = _SHOWN.fullmatch(shown.rpartition("/")[2])
    if found is None:
        raise FatalError(f"{shown} is not a name that a files sink gives")
    return found["stem"]


def _stem(range_: OffsetRange) -> str:
    return _whole_stem(replace(range_, topic=shortened(range_.topic, _TOPIC_MAX)))


def _whole_stem(range_: OffsetRange) -> str:
    """Return the stem with the whole topic. Epochs may be decided still by a version that did not shorten it."""
    topic = f"+{range_.topic}" if range_.topic[0] in "._" else range_.topic
    return f"{topic}+{range_.partition}+{range_.start:020d}-{range_.end - 1:020d}"
