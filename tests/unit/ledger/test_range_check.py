"""What files of a files sink say against the records of their offsets."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.ledger.files_audit import FileForm, FileRange, LogRecords, RangeCheck
from fencepost.ledger.finding import DifferenceKind, PartitionFindings
from fencepost.record import TopicPartition

COUNT = 1_000
MISSING, REPEATED, ALTERED = DifferenceKind.MISSING, DifferenceKind.REPEATED, DifferenceKind.ALTERED
Write = Callable[[Path, list[int]], FileForm]


def text(offset: int) -> str:
    return f"line {offset:07d}"


def parquet_with_offsets(path: Path, offsets: list[int]) -> FileForm:
    pq.write_table(pa.table({"n": [text(each) for each in offsets], "at": offsets}), path, write_page_checksum=True)
    return FileForm("parquet", "at")


def raw_parquet(path: Path, offsets: list[int]) -> FileForm:
    pq.write_table(pa.table({"value": [text(each) for each in offsets]}), path, write_page_checksum=True)
    return FileForm("parquet", is_raw=True)


def raw_json(path: Path, offsets: list[int]) -> FileForm:
    path.write_text("".join(f"{text(each)}\n" for each in offsets))
    return FileForm("json", is_raw=True)


def json_with_offsets(path: Path, offsets: list[int]) -> FileForm:
    path.write_text("".join(f'{{"at":{each}}}\n' for each in offsets))
    return FileForm("json", "at")


def csv_with_offsets(path: Path, offsets: list[int]) -> FileForm:
    path.write_text("n,at\n" + "".join(f'"a\n""b""",{each}\n' for each in offsets))
    return FileForm("csv", "at", has_header=True)


def bare_csv(path: Path, offsets: list[int]) -> FileForm:
    path.write_text("".join(f'"{text(each)}\n"\n' for each in offsets))
    return FileForm("csv")


def judged(form: FileForm, *paths: Path, count: int = COUNT, **how: bool) -> PartitionFindings:
    """Compare files with records of the offsets from 0 on."""
    offsets = pa.array(range(count), pa.int64())
    values = pa.array([text(each).encode() for each in range(count)], pa.binary())
    found = PartitionFindings(TopicPartition("t", 0), 0, count)
    check = RangeCheck(found, form, **{"has_all": True, "is_compacted": False, **how})
    check.judge(FileRange(0, count, paths), LogRecords(offsets, values if form.is_raw else None))
    return check.findings()


EXACT = [parquet_with_offsets, raw_parquet, raw_json, json_with_offsets, csv_with_offsets]


@pytest.mark.parametrize("write", [*EXACT, bare_csv])
def test_files_with_every_record_are_verified(tmp_path: Path, write: Write) -> None:
    form = write(tmp_path / "f", [*range(COUNT)])
    found = judged(form, tmp_path / "f")
    assert (found.differences, found.verified, found.is_complete) == ([], COUNT, True)


@pytest.mark.parametrize("write", EXACT)
@pytest.mark.parametrize("lost", [0, 777, COUNT - 1])
def test_a_row_that_is_lost_is_named_by_its_offset(tmp_path: Path, write: Write, lost: int) -> None:
    form = write(tmp_path / "f", [each for each in range(COUNT) if each != lost])
    (difference,) = judged(form, tmp_path / "f").differences
    assert (difference.kind, difference.first, difference.records) == (MISSING, lost, 1)


@pytest.mark.parametrize("write", EXACT)
def test_duplicated_row_is_named_by_its_offset(tmp_path: Path, write: Write) -> None:
    form = write(tmp_path / "f", sorted([*range(COUNT), 500]))
    (difference,) = judged(form, tmp_path / "f").differences
    assert (difference.kind, difference.records) == (REPEATED, 1)
    assert difference.first in (500, 501)  # the first value that differs is the one after it


@pytest.mark.parametrize("rows", [COUNT - 3, COUNT + 3])
def test_wrong_number_of_rows_without_offsets_is_found(tmp_path: Path, rows: int) -> None:
    (difference,) = judged(bare_csv(tmp_path / "f", [*range(rows)]), tmp_path / "f").differences
    assert (difference.kind, difference.records) == (MISSING if rows < COUNT else REPEATED, 3)
    assert (difference.first, difference.last) == (0, COUNT - 1)


@pytest.mark.parametrize("write", [raw_parquet, raw_json])
def test_a_value_that_was_changed_is_named_by_its_offset(tmp_path: Path, write: Write) -> None:
    form = write(tmp_path / "f", [each + (each == 42) for each in range(COUNT)])
    (difference,) = judged(form, tmp_path / "f").differences
    assert (difference.kind, difference.first, difference.last) == (ALTERED, 42, 42)


def test_a_damaged_page_is_found_by_its_checksum(tmp_path: Path) -> None:
    path = tmp_path / "f"
    form = raw_parquet(path, [*range(COUNT)])
    data = bytearray(path.read_bytes())
    at = data.index(b"line 0000500") if b"line 0000500" in data else 400
    data[at] ^= 0xFF
    path.write_bytes(data)
    (difference,) = judged(form, path).differences
    assert (difference.kind, difference.first) == (ALTERED, 0)
    assert str(path) in difference.detail


def test_truncated_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "f"
    form = raw_json(path, [*range(COUNT)])
    path.write_bytes(path.read_bytes()[:-5])
    (difference,) = judged(form, path).differences
    assert difference.kind is ALTERED
    assert "ends within a line" in difference.detail


def test_several_files_of_a_range_are_read_in_their_order(tmp_path: Path) -> None:
    first, second = tmp_path / "f+0.json", tmp_path / "f+1.json"
    raw_json(first, [*range(600)])
    form = raw_json(second, [*range(600, COUNT)])
    assert judged(form, first, second).differences == []


def test_files_of_several_directories_are_compared_by_their_number_of_rows(tmp_path: Path) -> None:
    paths = [tmp_path / name / "f" for name in ("a", "b")]
    for number, path in enumerate(paths):
        path.parent.mkdir()
        form = raw_json(path, [*range(number, COUNT, 2)])
    assert judged(form, *paths).differences == []


def test_csv_headers_in_several_directories_are_not_counted_as_rows(tmp_path: Path) -> None:
    paths = [tmp_path / name / "f" for name in ("a", "b")]
    for number, path in enumerate(paths):
        path.parent.mkdir()
        form = csv_with_offsets(path, [*range(number, COUNT, 2)])
    found = judged(FileForm("csv", has_header=form.has_header), *paths)
    assert (found.differences, found.verified) == ([], COUNT)


def test_extra_rows_made_by_a_query_are_no_difference(tmp_path: Path) -> None:
    form = json_with_offsets(tmp_path / "f", sorted([*range(COUNT), *range(COUNT)]))
    assert judged(form, tmp_path / "f", has_all=False).differences == []
    assert judged(form, tmp_path / "f").differences


def test_rows_left_out_by_a_query_are_no_difference_and_not_verified(tmp_path: Path) -> None:
    found = judged(bare_csv(tmp_path / "f", [*range(10)]), tmp_path / "f", has_all=False)
    assert (found.differences, found.verified, found.is_complete) == ([], 0, False)
    assert f"{COUNT} records may have been left out" in found.notes[0]


def test_rows_with_offsets_are_verified_even_if_a_query_left_out_others(tmp_path: Path) -> None:
    found = judged(json_with_offsets(tmp_path / "f", [*range(10)]), tmp_path / "f", has_all=False)
    assert (found.differences, found.verified, found.is_complete) == ([], 10, False)


def test_rows_of_compacted_records_are_no_difference(tmp_path: Path) -> None:
    for write in (json_with_offsets, raw_json):
        form = write(tmp_path / "f", [*range(2 * COUNT)])
        assert judged(form, tmp_path / "f", is_compacted=True).differences == []


def test_raw_json_lines_have_blanks_for_line_ends_and_null_for_tombstones(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b'{ "a":  1}\nnull\n\xef\xbf\xbd\n')
    found = PartitionFindings(TopicPartition("t", 0), 0, 3)
    check = RangeCheck(found, FileForm("json", is_raw=True), has_all=True, is_compacted=False)
    values = pa.array([b'{\n"a":\r\n1}', None, b"\xff"], pa.binary())
    check.judge(FileRange(0, 3, [tmp_path / "f"]), LogRecords(pa.array([0, 1, 2], pa.int64()), values))
    assert (check.findings().differences, found.verified) == ([], 3)


def test_a_compressed_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "f.json.gz"
    form = raw_json(path, [*range(COUNT)])
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert judged(form, path).verified == COUNT
