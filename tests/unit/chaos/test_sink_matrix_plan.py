"""The matrix of sinks: its plan, and what its log takes for an anomaly."""

from pathlib import Path

import pytest

from support.chaos.sink_log import SinkFile, SinkLog
from support.chaos.sink_point import SINK_KINDS, SINK_POINTS, sink_matrix

CLEAN = [
    "open a 1 0",
    "put a 1 0 0 0-0",
    "put a 1 0 1 0-1",
    "put a 1 0 2 0-2",
    "mark 0 2",
    "open b 1 0",
    "put b 1 0 2 0-2",
    "put b 1 0 3 0-3",
    "mark 0 4",
]


def test_sink_matrix_puts_each_kind_of_fault_at_each_point_once_per_pass() -> None:
    cells = [(each.kind, point) for each in sink_matrix(3, 2, 6) for _, point, _ in each.blows]
    assert len(cells) == 2 * 24
    assert set(cells) == {(kind, point) for kind in SINK_KINDS for point in SINK_POINTS}
    for each in sink_matrix(3, 2, 5):
        assert len({target for target, _, _ in each.blows}) == len(each.blows)


def test_records_put_again_from_the_last_commit_are_no_anomaly() -> None:
    log = SinkLog().add(CLEAN)
    assert log.judged({0: 4}).is_clean
    assert log.faults == []
    assert log.is_followed("b", 1) is False
    assert SinkLog().add(CLEAN[:7]).is_followed("a", 1) is True


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ([*CLEAN[:4], "mark 0 4"], "4 of 0 was committed, and [3] was not flushed"),
        ([*CLEAN[:5], "open b 1 0", "put b 1 0 1 0-1"], "begins at 1 of 0, though 2 was committed"),
        ([*CLEAN[:2], "put a 1 0 2 0-2"], "offset 2 of 0 follows 0"),
        ([*CLEAN, "mark 0 3"], "went back from 4 to 3"),
    ],
)
def test_sink_log_names_each_anomaly(lines: list[str], text: str) -> None:
    assert any(text in fault for fault in SinkLog().add(lines).faults)


def test_sink_log_reports_a_gap_and_a_lost_tail_as_missing() -> None:
    verdict = SinkLog().add([*CLEAN[:3], "open b 1 0", "put b 1 0 3 0-3"]).judged({0: 5})
    assert [sighting.sequence for sighting in verdict.missing] == [2, 4]


def test_sink_file_ignores_a_half_line_until_it_is_complete(tmp_path: Path) -> None:
    file = SinkFile(tmp_path / "out")
    file.path.write_text("open a 1 0\nput a 1 0 0 0-")
    assert file.read().records == 0
    with file.path.open("a") as out:
        out.write("0\n")
    assert file.read().records == 1
