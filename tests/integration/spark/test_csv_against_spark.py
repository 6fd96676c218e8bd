"""Lines that are cut are what Spark's CSV source and `to_json` make of them; what is not plain is left to it."""

import csv
import itertools
import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from fencepost.api import Split
from fencepost.api.errors import RecordError
from fencepost.builtin.connector.spool import csv_layout
from fencepost.builtin.connector.spool import source as spool
from fencepost.builtin.connector.spool.csv_layout import HEAD_BYTES
from fencepost.builtin.connector.spool.source import SpoolDirectorySource
from fencepost.spark.row.csv_objects import CsvForm, LeftToSparkError, with_objects
from fencepost.spark.session.session import SparkRuntime
from fencepost.spark.split.run import SPLIT_COLUMN
from fencepost.spark.split.splits import SplitReader
from support.long_form import IS_LONG

FILES, LINES = (200, 40_000) if IS_LONG else (4, 500)
PLAIN = [
    "a", "x y", " lead", "trail ", "ü", "𝄞", "\x7f", "\u2028", "\u00a0", "back\\slash", "\\n", "</b>", "#",
]  # fmt: skip
BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
ODD = [
    "\ufeff", '"', '"q"', 'a"b', "\x00", "\x1b", "\t", " ", "",
    "+1", "007", "-0", "1 ", "1e3", "9" * 20, "0x7FFFFFFF", "0xDEADBEEF",
]  # fmt: skip
FORMS = [
    ({}, "a STRING, b STRING, c STRING"),
    ({}, "a INT, b STRING, c BIGINT"),
    ({"reader.sep": "\t"}, "a STRING, b SMALLINT"),
    ({"reader.delimiter": "|", "reader.nullValue": "NA"}, "a STRING, b TINYINT, c STRING"),
    ({"reader.sep": " "}, "a STRING, b STRING"),
    ({"value.converter.schemas.enable": "true"}, "a STRING, b INT"),
]


def source(inbox: Path, schema: str | None, properties: dict[str, str]) -> SpoolDirectorySource:
    given = {} if schema is None else {"input.schema": schema}
    return SpoolDirectorySource(
        {"input.path": str(inbox), "topic": "t", "reader.header": "true", **given, **properties}
    )


def numbers_of(bits: int) -> list[str]:
    limit = 1 << (bits - 1)
    return ["0", "1", "-1", "10", "-100", str(limit - 1), str(-limit)]


def drawn(rng: random.Random, kinds: Sequence[str], separator: str, null: str, *, is_plain: bool) -> str:
    """Return a line. One that is not plain may be anything that somebody types."""
    values = []
    for kind in kinds:
        most = BITS.get(kind)
        pool = [*PLAIN, "1", null, ""] if most is None else [*numbers_of(most), null, ""]
        values.append(rng.choice(pool if is_plain or rng.random() < 0.9 else ODD))
    if separator in " \t" and is_plain:
        values = [value.replace(separator, "") or "1" for value in values]
    if not is_plain and rng.random() < 0.05:
        values = values[:-1] if rng.random() < 0.5 else [*values, "more"]
    return separator.join(values)


@pytest.mark.parametrize(("properties", "schema"), FORMS)
def test_rows_of_csv_equal_the_rows_of_spark(
    runtime: SparkRuntime, tmp_path: Path, properties: dict[str, str], schema: str, seed: int
) -> None:
    """Files are cut whole or not at all: where some lines are odd, Spark's rows, if it gives any, must be these."""
    rng = random.Random(seed)
    kinds = [column.split()[1] for column in schema.split(", ")]
    separator = properties.get("reader.sep", properties.get("reader.delimiter", ","))
    taken = 0
    for n in range(FILES):
        is_plain = n % 2 == 0
        count = 2 * LINES // FILES if is_plain else rng.randint(1, 3)
        null = properties.get("reader.nullValue", "")
        lines = [drawn(rng, kinds, separator, null, is_plain=is_plain) for _ in range(count)]
        name = rng.choice(["a.csv", "a.unknown"])  # which executors open themselves, or Spark finds the lines of
        ends = rng.choice(["\n", "\r\n", "\r"] if name == "a.unknown" or not is_plain else ["\n", "\r\n"])
        blanks = ["", "  ", "\t"][: 1 if is_plain else 3]
        for _ in range(rng.randint(0, 2)):
            lines.insert(rng.randint(0, len(lines)), rng.choice(blanks))
        directory = tmp_path / str(n)
        directory.mkdir()
        text = separator.join(column.split()[0] for column in schema.split(", ")) + ends + ends.join(lines)
        (directory / name).write_bytes(text.encode() + rng.choice([b"", ends.encode()]))
        given_schema = None if set(kinds) == {"STRING"} and rng.random() < 0.5 else schema
        try:
            cut = cut_by_arrow(runtime, directory, given_schema, properties)
        except RecordError as error:
            if '"' not in text or "ends within a quoted value" not in str(error):
                raise
            cut = None
        if cut is None:
            assert not is_plain, (seed, lines)
            continue
        taken += 1
        assert cut == read_by_spark(runtime, directory, given_schema, properties), (seed, lines)
    assert taken >= FILES // 2


def cut_by_arrow(
    runtime: SparkRuntime, directory: Path, schema: str | None, properties: dict[str, str]
) -> list[bytes] | None:
    """Return the objects of the one file; None where they are left to Spark."""
    connector = source(directory, schema, properties)
    reader = split_reader(connector, properties)
    frame = reader.frame(runtime.session, split_of(connector, runtime))
    assert frame.csv
    batches = frame.records.toArrow().to_batches(max_chunksize=7)
    try:
        made = list(with_objects(batches, CsvForm.decoded(frame.csv), SPLIT_COLUMN))
    except LeftToSparkError:
        return None
    return [value for batch in made for value in batch.column("value").to_pylist()]


def read_by_spark(
    runtime: SparkRuntime, directory: Path, schema: str | None, properties: dict[str, str]
) -> list[bytes]:
    connector = source(directory, schema, properties)
    frame = split_reader(connector, properties).frame_by_spark(runtime.session, split_of(connector, runtime))
    return [row.value.encode() for row in frame.records.collect()]


def split_reader(connector: SpoolDirectorySource, properties: dict[str, str]) -> SplitReader:
    return SplitReader(connector, {"value.converter.schemas.enable": "false", **properties})


def split_of(connector: SpoolDirectorySource, runtime: SparkRuntime) -> list[Split]:
    return list(connector.splits(runtime.session))


PIECES = ["a", '"', "\\", ",", "\n", "\r\n", "\r", " ", "é", "'"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("head_bytes", [HEAD_BYTES, 200], ids=["small file", "large file"])
def test_rows_of_csv_equal_the_rows_of_python(
    runtime: SparkRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, head_bytes: int
) -> None:
    monkeypatch.setattr(csv_layout, "HEAD_BYTES", head_bytes)
    monkeypatch.setattr(spool, "HEAD_BYTES", head_bytes)
    values = ["".join(each) for length in range(1, 4) for each in itertools.product(PIECES, repeat=length)]
    rows = [[str(n), value, value] for n, value in enumerate(values)]
    with (tmp_path / "a.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator=end).writerows([["id", "a", "b"], *rows])
    assert cut_by_arrow(runtime, tmp_path, None, {}) is None
    assert [list(json.loads(value).values()) for value in read_by_spark(runtime, tmp_path, None, {})] == rows


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (r'1,"say ""hi"" now"' + "\n", ["1", 'say "hi" now']),
        ('1,"C:\\dir\\"\n', ["1", "C:\\dir\\"]),
        ('1,"a, ""b"", c"\r\n', ["1", 'a, "b", c']),
        ('1,"in\ncell"\r\n', ["1", "in\ncell"]),
    ],
)
def test_quotes_of_csv_follow_rfc_4180(runtime: SparkRuntime, tmp_path: Path, text: str, values: list[str]) -> None:
    (tmp_path / "a.csv").write_bytes(("id,a" + text[-2:].lstrip('"') + text).encode())
    (value,) = read_by_spark(runtime, tmp_path, None, {})
    assert list(json.loads(value).values()) == values


def test_a_configured_escape_and_mixed_line_endings_are_read(runtime: SparkRuntime, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'id,a\r\n1,"a \\"b\\""\n\n  \n2,"c"\r\n')
    found = [list(json.loads(v).values()) for v in read_by_spark(runtime, tmp_path, None, {"reader.escape": "\\"})]
    assert found == [["1", 'a "b"'], ["2", "c"]]
