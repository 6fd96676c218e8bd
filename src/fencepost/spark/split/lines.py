"""Splits of CSV whose lines executors cut instead of Spark: which splits, and their frames (docs/decisions/0055)."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import or_
from pathlib import Path, PurePosixPath
from typing import Any

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from fencepost.api import CsvLines, DataFrameConnector, Split
from fencepost.api.dataframe import DataFrame, Session
from fencepost.record.type_table import whole_bits
from fencepost.spark.row.csv_objects import VALUE_COLUMN, CsvForm
from fencepost.spark.row.frame import around_payload
from fencepost.spark.split.run import SPLIT_COLUMN


def mark_of(n: int) -> str:
    """Return the value of `SPLIT_COLUMN` in the rows of split `n`: text.

    For a number, Spark would generate and compile another program for each split.
    """
    return str(n)


def mark_column(n: int) -> Any:
    return F.lit(mark_of(n)).alias(SPLIT_COLUMN)


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """Concatenate frames, half by half: each union is analysed as a whole."""
    half = len(frames) // 2
    return union(frames[:half]).union(union(frames[half:])) if half else frames[0]


_MOST_IN_SUCCESSION = 3
_CORRUPT = "spark.sql.columnNameOfCorruptRecord"
_ENDINGS = ("", ".csv", ".dat", ".psv", ".tsv", ".txt")


@dataclass(frozen=True)
class Lines:
    """How lines are cut, and the files, in their order. `schema`: the columns as Spark would read them.

    `paths` have Spark's form, or Python's if executors open the files.
    """

    form: CsvForm
    paths: tuple[str, ...]
    schema: Any

    def frame(self, session: Session) -> DataFrame:
        """Return the lines of each file, as Spark's CSV source finds them, or the files for executors to open."""
        if self.form.is_of_files:
            rows = [(path, mark_of(n)) for n, path in enumerate(self.paths)]
            files = session.createDataFrame(rows, f"{VALUE_COLUMN} string, {SPLIT_COLUMN} string")
            return files if len(rows) > 1 else files.drop(SPLIT_COLUMN)
        reader = session.read.option("__globPaths__", "false")
        frames = [reader.text(path).select(VALUE_COLUMN) for path in self.paths]
        return union([frame.select("*", mark_column(n)) for n, frame in enumerate(frames)] if frames[1:] else frames)


def local_file(path: str) -> Path | None:
    """Return the path with which Python opens a file, if Spark would read the same bytes; else None.

    Hadoop decompresses a file according to its suffix, and verifies the checksum file next to it, if there is one.
    """
    if not path.startswith("file:/") or PurePosixPath(path).suffix.lower() not in _ENDINGS:
        return None
    file = Path("/", path.removeprefix("file:").lstrip("/"))
    return None if os.path.exists(file.with_name(f".{file.name}.crc")) else file  # False for a name too long


class LineChoice:
    """Decides whether the lines of splits are cut in executors. One per task; driver side.

    After several consecutive files that were left to Spark it stops trying: the next ones would most likely be, too.
    """

    def __init__(self, connector: DataFrameConnector, *, is_open: bool, has_schemas: bool) -> None:
        """Set `is_open`: whether the settings ask for nothing but JSON objects of all columns."""
        self._connector = connector
        self._is_open = is_open
        self._has_schemas = has_schemas
        self._refused = 0

    def lines(self, session: Session, splits: Sequence[Split]) -> Lines | None:
        """Return how to cut the lines of these splits, which must be alike; None if Spark must read them."""
        if not self._is_open or self._refused >= _MOST_IN_SUCCESSION:
            return None
        corrupt = str(session.conf.get(_CORRUPT))
        found: list[tuple[CsvLines, CsvForm]] = []
        for split in splits:
            lines = self._connector.csv_lines(session, split)
            form = None if lines is None else self._form(lines, corrupt)
            if lines is None or form is None or (found and found[0][1] != form):
                return None
            found.append((lines, form))
        first, form = found[0]
        paths = [lines.path for lines, _ in found]
        files = [file for path in paths if (file := local_file(path)) is not None]
        if len(files) == len(paths):
            return Lines(replace(form, is_of_files=True), tuple(map(str, files)), first.schema)
        return Lines(form, tuple(paths), first.schema)

    def taken(self) -> None:
        """Record that all lines were cut."""
        self._refused = 0

    def refused(self) -> None:
        """Record that lines were left to Spark."""
        self._refused += 1

    def _form(self, lines: CsvLines, corrupt: str) -> CsvForm | None:
        """Return None for columns that are neither text nor whole numbers, and for a single column.

        Spark fills a column named `corrupt` itself, and looks for it in no line.
        """
        fields = lines.schema.fields
        names = tuple(field.name for field in fields)
        bits = tuple(whole_bits(field.dataType.simpleString()) for field in fields)
        if len(fields) < 2 or len({name.lower() for name in names}) < len(names) or not all(map(_is_plain, names)):
            return None
        if corrupt.lower() in (name.lower() for name in names):
            return None
        is_text = [isinstance(field.dataType, T.StringType) for field in fields]
        if not all(map(or_, bits, is_text)) or any(field.metadata for field in fields):
            return None
        separator = lines.separator
        if len(separator) != 1 or not (separator == "\t" or (separator.isascii() and _is_plain(separator))):
            return None
        header = None
        if lines.has_header:
            header = lines.separator.join(names) if lines.takes_names else ""
        before, after = around_payload(lines.schema) if self._has_schemas else ("", "")
        return CsvForm(names, bits, lines.separator, lines.null_value, header, before, after)


def _is_plain(name: str) -> bool:
    return name.isprintable() and '"' not in name and "\\" not in name
