"""Lines of CSV as objects, without Spark: which are left to it, and where files begin."""

from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.spark.csv_objects import CsvForm, LeftToSparkError, objects, with_objects

MARK = "split"
EDGES = [n for k in range(19) for n in (10**k - 1, 10**k, 1 - 10**k, -(10**k))] + [2**63 - 1, -(2**63)]
TEXTS = ["a", "x y", " lead", "trail ", "ü", "𝄞", "\x7f", "back\\slash", "", "NA", "1"]


def form(columns: str = "a STRING, b INT", separator: str = ",", null: str = "", header: str | None = None) -> CsvForm:
    names, kinds = zip(*(column.split() for column in columns.split(", ")), strict=True)
    bits = tuple({"STRING": 0, "INT": 32, "BIGINT": 64}[kind] for kind in kinds)
    return CsvForm(names, bits, separator, null, header, "", "")


def lines_of(*lines: str | bytes) -> pa.Array:
    raw = pa.array([line.encode() if isinstance(line, str) else line for line in lines], pa.binary())
    return pa.StringArray.from_buffers(len(raw), *raw.buffers()[1:])


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
def test_what_is_not_plain_is_left_to_spark(line: str | bytes, of: CsvForm) -> None:
    with pytest.raises(LeftToSparkError):
        objects(lines_of(of.separator.join("11"), line) if line != "\ufeffa,1" else lines_of(line), of)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.none(), st.sampled_from([str(n) for n in EDGES])), min_size=1, max_size=6), st.data())
def test_whole_numbers_are_plain_where_all_are_written_as_they_would_be_again(
    numbers: list[str | None], data: st.DataObject
) -> None:
    of = form("a STRING, b BIGINT", null="NA")
    lines = [f"x,{number or 'NA'}" for number in numbers]
    expected = [b'{"a":"x","b":%s}' % (number or "null").encode() for number in numbers]
    assert objects(lines_of(*lines), of).to_pylist() == expected
    odd = data.draw(st.sampled_from(["+1", "01", "-0", "-01", "00", "0x1", "0x10", " 1", "1 ", "1.0", "1e3", "-"]))
    lines.insert(data.draw(st.integers(0, len(lines))), f"x,{odd}")
    with pytest.raises(LeftToSparkError):
        objects(lines_of(*lines), of)


def batch(lines: Sequence[str], marks: Sequence[str] | None = None) -> pa.RecordBatch:
    columns = {"value": pa.array(lines, pa.string())}
    return pa.RecordBatch.from_pydict(columns if marks is None else {**columns, MARK: pa.array(marks)})


def rows(batches: Sequence[pa.RecordBatch], of: CsvForm) -> list[tuple[str, bytes]]:
    made = list(with_objects(batches, of, MARK))
    marks = [mark for each in made for mark in each.column(MARK).to_pylist()]
    return list(zip(marks, [v for each in made for v in each.column("value").to_pylist()], strict=True))


def test_each_file_has_a_header_wherever_batches_are_cut() -> None:
    lines = ["a,b", "x,1", "", "y,2", "a,b", "a,b", "z,3", "a,b"]
    marks = ["0", "0", "0", "0", "1", "2", "2", "3"]
    expected = [("0", b'{"a":"x","b":1}'), ("0", b'{"a":"y","b":2}'), ("2", b'{"a":"z","b":3}')]
    for at in range(len(lines) + 1):
        cut = [batch(lines[:at], marks[:at]), batch(lines[at:], marks[at:])]
        assert rows(cut, form(header="a,b")) == expected


@pytest.mark.parametrize(("first", "header"), [("", ""), (" ", ""), ("a,c", "a,b"), ('"a",b', "a,b")])
def test_a_first_line_that_is_not_the_header_is_left_to_spark(first: str, header: str) -> None:
    with pytest.raises(LeftToSparkError):
        list(with_objects([batch([first, "x,1"])], form(header=header), MARK))


def test_any_first_line_is_the_header_where_columns_are_given() -> None:
    (made,) = with_objects([batch(['"c,', "x,1"])], form(header=""), MARK)
    assert made.column("value").to_pylist() == [b'{"a":"x","b":1}']


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.sampled_from(TEXTS), min_size=2, max_size=2), max_size=8), st.data())
def test_a_part_of_lines_is_cut_as_they_are(values: list[list[str]], data: st.DataObject) -> None:
    """An array of Arrow's may begin in the middle of its buffers."""
    of = form("a STRING, b STRING", null="NA")
    lines = [",".join(pair) for pair in values]
    start = data.draw(st.integers(0, len(lines)))
    part, whole = lines_of(*lines[start:]), lines_of(*lines).slice(start)
    assert outcome(lambda: objects(part, of).to_pylist()) == outcome(lambda: objects(whole, of).to_pylist())


def outcome(act: Callable[[], list[bytes]]) -> list[bytes] | str:
    try:
        return act()
    except LeftToSparkError as error:
        return str(error)
