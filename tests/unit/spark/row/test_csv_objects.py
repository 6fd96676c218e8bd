"""Lines of CSV as objects, without Spark: which are left to it, and where files begin."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.spark.row.csv_objects import (
    CsvForm,
    LeftToSparkError,
    blocks_of_files,
    blocks_of_lines,
    objects,
    with_objects,
)
from fencepost.spark.split.lines import local_file

MARK = "split"
EDGES = [n for k in range(19) for n in (10**k - 1, 10**k, 1 - 10**k, -(10**k))] + [2**63 - 1, -(2**63)]
ODD_NUMBERS = [
    "+1", "01", "-0", "-01", "00", "0x1", "0x10", "0x7FFFFFFF", "0XDEADBEEF", " 1", "1 ", "1.0", "1e3", "-",
]  # fmt: skip
TEXTS = ["a", "x y", " lead", "trail ", "ü", "𝄞", "\x7f", "back\\slash", "", "NA", "1"]


def form(columns: str = "a STRING, b INT", separator: str = ",", null: str = "", header: str | None = None) -> CsvForm:
    names, kinds = zip(*(column.split() for column in columns.split(", ")), strict=True)
    bits = tuple({"STRING": 0, "INT": 32, "BIGINT": 64}[kind] for kind in kinds)
    return CsvForm(names, bits, separator, null, header)


def lines_of(*lines: str | bytes) -> bytes:
    return b"\n".join(line.encode() if isinstance(line, str) else line for line in lines)


@pytest.mark.parametrize(
    ("line", "of"),
    [
        ('a,"1"', form()),
        ("a\x00,1", form()),
        ("a\tb,1", form()),
        (b"\xff,1", form()),
        ("\ufeffa,1", form()),
        ("a,1,2", form()),
        ("a", form()),
        (" ", form()),
        ("a,+1", form()),
        ("a,01", form()),
        ("a,-0", form()),
        ("a, 1", form()),
        ("a,2147483648", form()),
        ("a,x", form()),
        ("\t", form(separator="\t")),
        (" \t", form("a STRING, b STRING", separator="\t")),
        ("a\x01\t1", form(separator="\t")),
    ],
)
def test_csv_that_is_not_plain_is_left_to_spark(line: str | bytes, of: CsvForm) -> None:
    with pytest.raises(LeftToSparkError):
        objects(lines_of(of.separator.join("11"), line) if line != "\ufeffa,1" else lines_of(line), of)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.none(), st.sampled_from([str(n) for n in EDGES])), min_size=1, max_size=6), st.data())
def test_whole_numbers_are_plain_only_in_canonical_form(numbers: list[str | None], data: st.DataObject) -> None:
    of = form("a STRING, b BIGINT", null="NA")
    lines = [f"x,{number or 'NA'}" for number in numbers]
    expected = [b'{"a":"x","b":%s}' % (number or "null").encode() for number in numbers]
    assert objects(lines_of(*lines), of).to_pylist() == expected
    odd = data.draw(st.sampled_from(ODD_NUMBERS))
    lines.insert(data.draw(st.integers(0, len(lines))), f"x,{odd}")
    with pytest.raises(LeftToSparkError):
        objects(lines_of(*lines), of)


def test_short_number_does_not_compensate_for_a_long_one() -> None:
    with pytest.raises(LeftToSparkError):
        objects(lines_of("x,0xFFFFFFFFFFFFFFF", "x,007"), form("a STRING, b BIGINT"))


def batch(lines: Sequence[str], marks: Sequence[str] | None = None) -> pa.RecordBatch:
    columns = {"value": pa.array(lines, pa.string())}
    return pa.RecordBatch.from_pydict(columns if marks is None else {**columns, MARK: pa.array(marks)})


def rows(batches: Sequence[pa.RecordBatch], of: CsvForm) -> list[tuple[str, bytes]]:
    made = list(with_objects(batches, of, MARK))
    marks = [mark for each in made for mark in each.column(MARK).to_pylist()]
    return list(zip(marks, [v for each in made for v in each.column("value").to_pylist()], strict=True))


def test_header_of_each_file_is_skipped_at_any_batch_boundary() -> None:
    lines = ["a,b", "x,1", "", "y,2", "a,b", "a,b", "z,3", "a,b"]
    marks = ["0", "0", "0", "0", "1", "2", "2", "3"]
    expected = [("0", b'{"a":"x","b":1}'), ("0", b'{"a":"y","b":2}'), ("2", b'{"a":"z","b":3}')]
    for at in range(len(lines) + 1):
        cut = [batch(lines[:at], marks[:at]), batch(lines[at:], marks[at:])]
        assert rows(cut, form(header="a,b")) == expected


@pytest.mark.parametrize(
    ("first", "header"), [("", ""), (" ", ""), ("\x1a", ""), ("\x00\x00 ", ""), ("a,c", "a,b"), ('"a",b', "a,b")]
)
def test_a_first_line_that_is_not_the_header_is_left_to_spark(first: str, header: str) -> None:
    with pytest.raises(LeftToSparkError):
        list(with_objects([batch([first, "x,1"])], form(header=header), MARK))


def test_first_line_is_skipped_as_header_when_columns_are_configured() -> None:
    (made,) = with_objects([batch(['"c,', "x,1"])], form(header=""), MARK)
    assert made.column("value").to_pylist() == [b'{"a":"x","b":1}']


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=8), st.data())
def test_slice_of_a_batch_has_its_own_lines_only(lines: list[str], data: st.DataObject) -> None:
    """An array of Arrow's may begin in the middle of its buffers."""
    start = data.draw(st.integers(0, len(lines) - 1))
    part = list(blocks_of_lines([batch(lines).slice(start)], MARK))
    assert part == [(None, lines_of(*lines[start:]))]


# files that executors open


@pytest.mark.parametrize("read_bytes", [1, 2, 3, 5, 1 << 20])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("is_ended", [True, False])
def test_blocks_of_a_file_hold_all_lines_uncut(tmp_path: Path, read_bytes: int, end: bytes, is_ended: bool) -> None:
    lines = [b"", b"a,b", b"x" * 11, b"\xc3\xbc,1", b"", b"\xef\xbb\xbfz", b"9"]
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf" + end.join(lines) + (end if is_ended else b""))
    (tmp_path / "empty.csv").touch()
    paths = [str(tmp_path / "a.csv"), str(tmp_path / "empty.csv"), str(tmp_path / "a.csv")]
    found = list(blocks_of_files([batch(paths[:1], ["0"]), batch(paths[1:], ["1", "2"])], MARK, read_bytes))
    for mark in ("0", "2"):
        blocks = [block for file, block in found if file == mark]
        assert b"".join(blocks) == b"\n".join(lines) + (b"\n" if is_ended else b"")
        assert all(block.endswith(b"\n") for block in blocks[:-1])
    assert {file for file, _ in found} == {"0", "2"}


@pytest.mark.parametrize("content", [b"a,b\rc,d\n", b"a,b\n\r", b"a,b\r\r\n"])
def test_carriage_returns_alone_are_left_to_spark(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(LeftToSparkError):
        list(blocks_of_files([batch([str(tmp_path / "a.csv")])], MARK))


def test_endless_line_is_left_to_spark(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"x" * 100)
    with pytest.raises(LeftToSparkError):
        list(blocks_of_files([batch([str(tmp_path / "a.csv")])], MARK, read_bytes=4, longest_line_bytes=10))


def test_only_plain_local_files_are_opened_directly(tmp_path: Path) -> None:
    long = "g" * 251 + ".csv"  # the name of its sum would be longer than a name may be
    for name in ("a.csv", "b [1] %20.TXT", "c", "d.csv.gz", "e.zst", "f.csv", long):
        (tmp_path / name).touch()
    (tmp_path / ".f.csv.crc").touch()
    opened = {name: local_file(f"file:{tmp_path}/{name}") for name in ("a.csv", "b [1] %20.TXT", "c", long)}
    assert opened == {name: tmp_path / name for name in opened}
    assert local_file(f"file://{tmp_path}/a.csv") == tmp_path / "a.csv"
    others = ["file:{}/d.csv.gz", "file:{}/e.zst", "file:{}/f.csv", "hdfs://n{}/a.csv", "{}/a.csv"]
    assert [local_file(other.format(tmp_path)) for other in others] == [None] * 5
