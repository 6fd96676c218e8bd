"""Reads the files of a files sink back, on this machine."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq

from fencepost.api.errors import FatalError

_CSV_OPTIONS = frozenset({"header", "compression"})
_VALUE = "value"
_BYTES = pa.binary()


class UnreadableFileError(FatalError):
    """A file is damaged, or of a form that is not known here."""


@dataclass(frozen=True, slots=True)
class FileForm:
    """What the files of a sink contain.

    Attributes:
        format: `parquet`, `json` or `csv`.
        offset_column: the column with the records' offsets, if files have it; empty if none has.
        is_raw: whether the only column is the value as it is in Kafka, as text.
        options: the options of Spark's writer.
    """

    format: str
    offset_column: str = ""
    is_raw: bool = False
    options: Mapping[str, str] | None = None


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
    read = {"parquet": _parquet, "json": _json, "csv": _csv}.get(form.format)
    if read is None:
        raise UnreadableFileError(f"{path}: format={form.format} is not known")
    try:
        return read(path, form)
    except UnreadableFileError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
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
    given = {name.lower(): value for name, value in (form.options or {}).items()}
    others = sorted(given.keys() - _CSV_OPTIONS)
    if others:
        raise UnreadableFileError(f"{path}: rows of CSV with writer.{others[0]} cannot be counted")
    has_header = given.get("header", "").lower() == "true"
    with pa.input_stream(str(path), compression="detect") as stream:
        table = pc_csv.read_csv(
            stream,
            pc_csv.ReadOptions(autogenerate_column_names=not has_header),
            pc_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            pc_csv.ConvertOptions(auto_dict_encode=False, check_utf8=False),
        )
    if not has_header or form.offset_column not in table.column_names:
        return FileRows(len(table))
    return FileRows(len(table), pc.cast(table[form.offset_column], pa.int64()).combine_chunks())
