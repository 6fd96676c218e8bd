"""Reads the files of a files sink back, on this machine."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.api.errors import FatalError

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
