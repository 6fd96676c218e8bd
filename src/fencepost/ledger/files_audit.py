"""Compares the files of a files sink with the topics that it reads. Both ends can be read, so this needs no ledger.

Nothing is changed, and the sink may run meanwhile. The order of steps avoids false alarms:

1. The caller has read up to where the sink has committed: what comes before that is in files (E17).
2. List the files. Those of later records may be incomplete, and are not compared.
3. Read each partition from the first file's beginning, and the files with the same offsets; compare.
"""

import os
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from fencepost.builtin.connector.files.moves import names_of_topic, shown_parts
from fencepost.kafka.admin.client import Admin
from fencepost.ledger.finding import Findings, PartitionFindings
from fencepost.ledger.log import OnPartition, compacted, existing, read_log
from fencepost.ledger.range_check import FileForm, FileRange, LogRecords, RangeCheck
from fencepost.record import TopicPartition

_HIDDEN = (".", "_")


@dataclass(frozen=True, slots=True)
class FilesScope:
    """What is compared.

    Attributes:
        path: the sink's directory, on this machine.
        form: what its files contain.
        committed: the offsets that the sink has committed.
        has_all: whether each record becomes one row.
        from_start: whether the sink begins with the oldest records.
    """

    path: Path
    form: FileForm
    committed: Mapping[TopicPartition, int]
    has_all: bool = True
    from_start: bool = True


@dataclass
class FilesReport(Findings):
    """What the audit of a files sink has found."""

    path: Path
    files: int = 0


class _Stretch(NamedTuple):
    """Offsets that are compared together: those of a range of files, or those between two, which have no file."""

    start: int
    end: int
    files: FileRange | None


class FilesAudit:
    """Reads the files of one sink, and its topics."""

    def __init__(self, conf: Mapping[str, Any], connector: str, scope: FilesScope) -> None:
        """`conf` is made by `range_conf`."""
        self._conf, self._scope = conf, scope
        self._admin = Admin(conf, timeout_s=30.0)
        self._connector = connector

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._admin.close()

    def run(self, topics: Collection[str] = (), on_read: OnPartition | None = None) -> FilesReport:
        """Compare; only these `topics` if there are any.

        Raises CorruptBatchError, FatalError, and what `Admin` raises.
        """
        report = FilesReport(self._connector, self._scope.path)
        committed = {place: end for place, end in sorted(self._scope.committed.items()) if end > 0}
        wanted = {place: end for place, end in committed.items() if not topics or place.topic in topics}
        ranges = self._ranges({place.topic for place in wanted})  # 2
        report.files = sum(len(each.paths) for of_place in ranges.values() for each in of_place)
        places = [*existing(self._admin, wanted)]
        missing = sorted({*wanted} - {*places})
        report.notes += [f"{place.topic}-{place.partition} does not exist any more" for place in missing]
        starts, ends = self._admin.offsets.starts(places), self._admin.offsets.ends(places, read_committed=True)
        lossy = compacted(self._admin, places)
        for place in places:
            check = RangeCheck(
                PartitionFindings(place, starts[place], wanted[place]),
                self._scope.form,
                has_all=self._scope.has_all,
                is_compacted=place.topic in lossy,
            )
            if wanted[place] > ends[place]:
                check.found.is_complete = False
                check.found.notes.append(f"the topic ends at offset {ends[place]}, before what the sink has committed")
            else:
                self._compare(check, ranges.get(place, []), on_read)  # 3
            report.partitions.append(check.findings())
        return report

    def _ranges(self, topics: Collection[str]) -> dict[TopicPartition, list[FileRange]]:
        of_name = {name: topic for topic in topics for name in names_of_topic(topic)}
        found: dict[tuple[TopicPartition, int, int], list[tuple[int, Path]]] = defaultdict(list)
        for path in _shown(self._scope.path):
            parts = shown_parts(path.name)
            if parts is not None and parts.topic in of_name:
                place = TopicPartition(of_name[parts.topic], parts.partition)
                found[place, parts.start, parts.end].append((parts.roll, path))
        ranges: dict[TopicPartition, list[FileRange]] = defaultdict(list)
        for (place, start, end), files in sorted(found.items()):
            ranges[place].append(FileRange(start, end, [path for _, path in sorted(files)]))
        return ranges

    def _compare(self, check: RangeCheck, ranges: list[FileRange], on_read: OnPartition | None) -> None:
        found = check.found
        place, log_start = found.place, found.start
        # Where offsets were set back, files have some of the records below and above them.
        end = min([found.end, *(each.start for each in ranges if each.start < found.end < each.end)])
        known = [each for each in ranges if each.end <= end]
        later = sum(len(each.paths) for each in ranges if each.end > end)
        deleted = sum(len(each.paths) for each in known if each.start < log_start)
        known = [each for each in known if each.start >= log_start]
        begin = log_start if self._scope.from_start else known[0].start if known else max(log_start, end)
        for count, text in (
            (later, "files have later records than the sink has committed"),
            (deleted, "files have records that are deleted from the topic"),
            (begin - log_start, "offsets before the first file were not compared"),
        ):
            found.notes += [f"{count} {text}"] if count else []
        records = _Log(read_log(self._conf, place, begin, end, on_read), keeps_values=self._scope.form.is_raw)
        for stretch in _stretches(check, known, max(begin, _covered(ranges, log_start)), end):
            check.judge(stretch.files, records.up_to(stretch.start, stretch.end))


class _Log:
    """The committed records of a partition, taken in the order of their offsets."""

    def __init__(self, pieces: Iterator[Any], *, keeps_values: bool) -> None:
        self._pieces = pieces
        self._keeps_values = keeps_values
        self._left: Any = None

    def up_to(self, start: int, end: int) -> LogRecords:
        """Return the records of these offsets; earlier ones are skipped."""
        offsets: list[Any] = []
        values: list[Any] = []
        while True:
            piece, self._left = self._left if self._left is not None else next(self._pieces, None), None
            if piece is None:
                break
            first, stop = max(0, start - piece.offset), max(0, min(len(piece), end - piece.offset))
            if first < stop:
                offsets.append(pa.array(range(piece.offset + first, piece.offset + stop), pa.int64()))
                if self._keeps_values:
                    values.append(piece.values[first:stop])
            if stop < len(piece):
                self._left = piece
                break
        none = pa.array([], pa.int64())
        found = pa.concat_arrays([none, *offsets])
        if not self._keeps_values:
            return LogRecords(found, None)
        return LogRecords(found, pa.concat_arrays([pa.array([], pa.binary()), *(v.cast(pa.binary()) for v in values)]))


def _covered(ranges: list[FileRange], log_start: int) -> int:
    """Return up to where files have records that are partly deleted from the log: those cannot be compared."""
    return max((each.end for each in ranges if each.start < log_start < each.end), default=log_start)


def _stretches(check: RangeCheck, ranges: list[FileRange], start: int, end: int) -> Iterator[_Stretch]:
    """Yield the offsets from `start` to `end` in stretches, in order. What several files have is a difference."""
    at = start
    for each in ranges:
        if each.start < at:
            check.overlapping(each, at)
            continue
        if each.start > at:
            yield _Stretch(at, each.start, None)
        yield _Stretch(each.start, each.end, each)
        at = each.end
    if at < end:
        yield _Stretch(at, end, None)


def _shown(path: Path) -> Iterator[Path]:
    for directory, below, names in os.walk(path):
        below[:] = [name for name in below if not name.startswith(_HIDDEN)]
        yield from (Path(directory, name) for name in names if not name.startswith(_HIDDEN))
