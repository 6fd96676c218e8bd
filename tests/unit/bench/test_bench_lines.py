"""Lines that know their number, and how often a reader missed one."""

from pathlib import Path

import pytest
from bench.growing import GrowingFile
from bench.lines import number_of, write_lines
from bench.tail import Seen, anomalies


def test_lines_are_numbered_and_have_the_requested_width(tmp_path: Path) -> None:
    write_lines(tmp_path / "lines", 3, 50)
    lines = (tmp_path / "lines").read_bytes().splitlines()
    assert [number_of(line) for line in lines] == [0, 1, 2]
    assert {len(line) for line in lines} == {50}


def test_growing_file_continues_line_numbers_on_each_append(tmp_path: Path) -> None:
    file = GrowingFile(tmp_path / "lines")
    file.append()
    file.append(2)
    file.close()
    assert [number_of(line) for line in file.path.read_bytes().splitlines()] == [0, 1, 2]
    assert file.count == 3


@pytest.mark.parametrize(
    ("numbers", "expected"), [([0, 1, 2], 0), ([0, 2], 1), ([0, 1, 1, 2], 1), ([0, 2, 1, 3], 3), ([], 0), ([1, 2], 1)]
)
def test_lost_double_or_reordered_line_is_an_anomaly(numbers: list[int], expected: int) -> None:
    assert anomalies([Seen(number, 0.0) for number in numbers]) == expected
