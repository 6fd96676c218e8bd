"""Compares the rows of some files with the records of the same offsets."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.api.errors import FatalError
from fencepost.ledger.finding import Difference, DifferenceKind, PartitionFindings

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
