"""Compares the files of a files sink with the topics that it reads. Both ends can be read, so this needs no ledger.

Nothing is changed, and the sink may run meanwhile. The order of steps avoids false alarms:

1. The caller has read up to where the sink has committed: what comes before that is in files (E17).
2. List the files. Those of later records may be incomplete, and are not compared.
3. Read each partition from the first file's beginning, and the files with the same offsets; compare.

Compares the rows of some files with the records of the same offsets.
"""

import csv
import io
import os
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.api.errors import FatalError
from fencepost.builtin.connector.files.moves import names_of_topic, shown_parts
from fencepost.kafka.admin.client import Admin
from fencepost.ledger.finding import Difference, DifferenceKind, Findings, PartitionFindings
from fencepost.ledger.log import OnPartition, compacted, existing, read_log
from fencepost.record import TopicPartition

_VALUE = "value"
_LONGEST_FIELD = 1 << 30
_BYTES = pa.binary()


class UnreadableFileError(FatalError):
    """A file is damaged."""


@dataclass(frozen=True, slots=True)
class FileForm:
    """What the files of a sink contain.

    Attributes:
        format: `parquet`, `json` or `csv`.
        offset_column: the column with the records' offsets, if files have it; empty if none has.
        is_raw: whether the only column is the value as it is in Kafka, as text.
        has_header: whether files of CSV begin with the names of their columns.
    """

    format: str
    offset_column: str = ""
    is_raw: bool = False
    has_header: bool = False


@dataclass(frozen=True, slots=True)
class FileRows:
    """The rows of some files, in order: how many, and, if the files contain them, their offsets or values."""

    count: int
    offsets: Any = None
    values: Any = None


def rows_of(paths: Sequence[Path], form: FileForm) -> FileRows:
    """Read files. Raises UnreadableFileError."""
    parts = [_rows(path, form) for path in paths]
    return FileRows(
        sum(part.count for part in parts),
        _joined(part.offsets for part in parts),
        _joined(part.values for part in parts),
    )


def _joined(columns: Iterator[Any]) -> Any:
    found = [*columns]
    return None if any(column is None for column in found) else pa.concat_arrays(found)


def _rows(path: Path, form: FileForm) -> FileRows:
    read = {"parquet": _parquet, "json": _json, "csv": _csv}[form.format]
    try:
        return read(path, form)
    except UnreadableFileError:
        raise
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, csv.Error) as error:
        raise UnreadableFileError(f"{path} cannot be read: {' '.join(str(error).split())}") from error


def _parquet(path: Path, form: FileForm) -> FileRows:
    """Read all columns: that checks the checksums of their pages."""
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        names, count = file.schema_arrow.names, 0
        has_offsets = form.offset_column in names
        wanted = form.offset_column if has_offsets else _VALUE if form.is_raw and names == [_VALUE] else ""
        kept: list[Any] = []
        for batch in file.iter_batches():
            count += len(batch)
            if wanted:
                kept.append(batch.column(wanted))
    if not wanted:
        return FileRows(count)
    kind = pa.int64() if has_offsets else _BYTES
    column = pa.chunked_array([each.cast(kind) for each in kept], kind).combine_chunks()
    return FileRows(count, column) if has_offsets else FileRows(count, values=column)


def _json(path: Path, form: FileForm) -> FileRows:
    with pa.input_stream(str(path), compression="detect") as stream:
        lines = stream.read().split(b"\n")
    if lines.pop():
        raise UnreadableFileError(f"{path} ends within a line")
    if form.offset_column and lines and form.offset_column in orjson.loads(lines[0]):
        return FileRows(len(lines), pa.array([orjson.loads(line)[form.offset_column] for line in lines], pa.int64()))
    return FileRows(len(lines), values=pa.array(lines, _BYTES) if form.is_raw else None)


def _csv(path: Path, form: FileForm) -> FileRows:
    csv.field_size_limit(_LONGEST_FIELD)
    with (
        pa.input_stream(str(path), compression="detect") as stream,
        io.TextIOWrapper(stream, "utf-8", "replace", newline="") as text,
    ):
        rows = csv.reader(text)
        names = next(rows, []) if form.has_header else []
        if form.offset_column not in names:
            return FileRows(sum(1 for _ in rows))
        column = names.index(form.offset_column)
        offsets = pa.array([int(row[column]) for row in rows], pa.int64())
    return FileRows(len(offsets), offsets)


_LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")


@dataclass(frozen=True, slots=True)
class FileRange:
    """The files with the records from offset `start` up to before `end`, in order."""

    start: int
    end: int
    paths: Sequence[Path]

    @property
    def is_ordered(self) -> bool:
        """Return whether the rows of these files, one after the other, are in the order of their records."""
        return len({path.parent for path in self.paths}) == 1


@dataclass(frozen=True, slots=True)
class LogRecords:
    """Committed records of a topic: their offsets and, if they are needed, their values, as Arrow arrays."""

    offsets: Any
    values: Any

    def __len__(self) -> int:
        return len(self.offsets)


class RangeCheck:
    """Judges one partition, range by range."""

    def __init__(self, found: PartitionFindings, form: FileForm, *, has_all: bool, is_compacted: bool) -> None:
        """`has_all`: each record becomes a row. `is_compacted`: the topic may lack records that files have."""
        self.found = found
        self._form, self._has_all, self._is_compacted = form, has_all, is_compacted
        self._rows = self._records = 0  # of ranges whose records may have become no row, or several

    def overlapping(self, files: FileRange, covered: int) -> None:
        """Take files with offsets below `covered`, which other files have as well."""
        last = min(files.end, covered) - 1
        self._differ(
            DifferenceKind.REPEATED, files.start, last, last - files.start + 1, f"again in {files.paths[0].name}"
        )

    def judge(self, files: FileRange | None, records: LogRecords) -> None:
        """Compare the rows of files with the records of the same offsets; without files, there should be no record."""
        if files is None:
            self._judge_gap(records)
            return
        try:
            form = self._form if files.is_ordered else replace(self._form, is_raw=False)
            rows = rows_of(files.paths, form)
        except UnreadableFileError as error:
            self._differ(DifferenceKind.ALTERED, files.start, files.end - 1, len(records), str(error))
            return
        before = len(self.found.differences)
        if rows.offsets is not None:
            self._judge_offsets(rows.offsets, records, files)
        elif not self._has_all:
            self._rows += rows.count
            self._records += len(records)
            self.found.others += len(records)
            return
        elif rows.values is not None and not self._is_compacted:
            self._judge_values(rows, records)
        else:
            self._judge_count(rows.count, records, files)
        if len(self.found.differences) == before:
            self.found.verified += min(rows.count, len(records))
            self.found.others += max(0, len(records) - rows.count)

    def _judge_gap(self, records: LogRecords) -> None:
        if not len(records):
            return
        if not self._has_all:
            self._records += len(records)
            self.found.others += len(records)
            return
        first, last = records.offsets[0].as_py(), records.offsets[-1].as_py()
        self._differ(DifferenceKind.MISSING, first, last, len(records), "no file has them")

    def _judge_offsets(self, offsets: Any, records: LogRecords, files: FileRange) -> None:
        counted = pc.value_counts(offsets)
        twice = counted.field("values").filter(pc.greater(counted.field("counts"), 1))
        if len(twice) and self._has_all:  # else a query may make several rows of a record
            self._of_offsets(DifferenceKind.REPEATED, twice, files)
        unknown = offsets.filter(pc.invert(pc.is_in(offsets, records.offsets)))
        if len(unknown) and not self._is_compacted:
            self._of_offsets(DifferenceKind.ALTERED, unknown, files, "the topic has no such records; ")
        missing = records.offsets.filter(pc.invert(pc.is_in(records.offsets, offsets)))
        if len(missing) and self._has_all:
            self._of_offsets(DifferenceKind.MISSING, missing, files)
        elif len(missing):
            self._records += len(missing)

    def _of_offsets(self, kind: DifferenceKind, offsets: Any, files: FileRange, detail: str = "") -> None:
        first, last = pc.min(offsets).as_py(), pc.max(offsets).as_py()
        self._differ(kind, first, last, len(offsets), f"{detail}in {files.paths[0].name}")

    def _judge_values(self, rows: FileRows, records: LogRecords) -> None:
        """Compare values in order. The first that differs may be there, altered, or one that is missing or too many."""
        count = min(rows.count, len(records))
        expected = _lines(records.values) if self._form.format == "json" else records.values
        differing = _differing(rows.values[:count], expected[:count])
        if rows.count != len(records):
            at = differing[0] if differing else count
            kind = DifferenceKind.MISSING if rows.count < len(records) else DifferenceKind.REPEATED
            first = records.offsets[min(at, len(records) - 1)].as_py() if len(records) else self.found.end
            text = f"{rows.count} rows for {len(records)} records"
            self._differ(kind, first, first, abs(rows.count - len(records)), f"{text}; the first that differs")
        elif differing:
            first, last = (records.offsets[each].as_py() for each in (differing[0], differing[-1]))
            self._differ(DifferenceKind.ALTERED, first, last, len(differing), "other values")

    def _judge_count(self, rows: int, records: LogRecords, files: FileRange) -> None:
        left = rows - len(records)
        if left > 0 and self._is_compacted:
            return
        if left:
            kind = DifferenceKind.MISSING if left < 0 else DifferenceKind.REPEATED
            text = f"{rows} rows for {len(records)} records, in {files.paths[0].name}"
            self._differ(kind, files.start, files.end - 1, abs(left), text)

    def _differ(self, kind: DifferenceKind, first: int, last: int, records: int, detail: str) -> None:
        self.found.differences.append(Difference(kind, self.found.place, first, last, records, detail=detail))

    def findings(self) -> PartitionFindings:
        """Return what was found, once everything was judged."""
        if self._records:
            self.found.is_complete = False
            text = (
                f"and there are {self._rows} rows, which do not say of which records" if self._rows else "or are lost"
            )
            self.found.notes.append(
                f"{self._records} records may have been left out by transforms.sql or errors.tolerance, {text}"
            )
        return self.found


def _lines(values: Any) -> Any:
    """Return values as lines of a file: `null` for none, and with a blank for each end of a line."""
    found = pc.fill_null(values, b"null")
    if not pc.any(pc.match_substring_regex(found.cast(pa.large_binary()), "[\r\n]")).as_py():
        return found
    return pa.array([each.translate(_LINE_ENDS) for each in found.to_pylist()], pa.binary())


def _differing(rows: Any, expected: Any) -> list[int]:
    """Return the indexes of rows that differ. Bytes that are not text count as what a reader of text makes of them."""
    same = pc.fill_null(pc.equal(rows, expected), False)
    both_null = pc.and_(pc.is_null(rows), pc.is_null(expected))
    found = pc.indices_nonzero(pc.invert(pc.or_(same, both_null))).to_pylist()
    return [index for index in found if not _is_same_text(rows[index].as_py(), expected[index].as_py())]


def _is_same_text(row: bytes | None, value: bytes | None) -> bool:
    return row is not None and value is not None and row == value.decode(errors="replace").encode()


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
