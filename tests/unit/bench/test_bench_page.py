"""The page holds what the results hold, and says what is missing by an empty cell."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from bench import page
from bench.result import Result, Row


def _result(**change: Any) -> dict[str, Any]:
    result: dict[str, Any] = {
        "part": "throughput",
        "title": "Throughput",
        "method": ["How it was done."],
        "settings": {"tuned": {"fencepost": "batch.size=1", "connect": "batch.size=1, linger.ms=5"}},
        "rows": [
            {
                "name": "tuned",
                "unit": "records/s",
                "samples": {"fencepost": [900_000, 800_000, 850_000], "connect": [425_000]},
                "statistics": ["median"],
                "is_more_better": True,
                "reach": "1.2 × or more",
            },
            {
                "name": "slot",
                "unit": "s",
                "samples": {"fencepost": [1.0, 2.0, 3.0]},
                "statistics": ["p50", "max"],
                "is_more_better": True,
                "reach": "",
            },
        ],
        "runs": [{"began": "2026-01-02T03:04:05+00:00", "seconds": 120.0, "commit": "abc"}],
        "machine": {"processor": "Abacus", "cores": "2", "memory": "8 GiB", "system": "Linux"},
        "versions": {"Python": "3.11", "pyspark": "4"},
    }
    return result | change


def test_bench_page_row_shows_medians_sample_ranges_and_ratio() -> None:
    text = page.render([_result()])
    assert (
        "| tuned, records/s | **850,000** (800,000-900,000, n 3) | **425,000** (n 1) | 2.00 | 1.2 × or more |" in text
    )


def test_bench_page_has_a_line_per_statistic_and_empty_cells_for_a_missing_side() -> None:
    text = page.render([_result()])
    assert "| slot, p50, s | **2.00** (1.00-3.00, n 3) |  |  |  |" in text
    assert "| slot, max, s | **3.00** (1.00-3.00, n 3) |  |  |  |" in text


def test_bench_page_names_machine_date_versions_and_settings_of_both_sides() -> None:
    text = page.render([_result()])
    for told in ("Abacus, 2 cores, 8 GiB of memory", "Measured on 2026-01-02", "Python 3.11", "commit abc"):
        assert told in text
    assert "- tuned. Fencepost: batch.size=1. Kafka Connect: batch.size=1, linger.ms=5." in text


def test_bench_page_head_omits_a_version_that_differs_between_parts() -> None:
    text = page.render([_result(), _result(versions={"Python": "3.11", "pyspark": "5"})])
    head = text.split("## Both sides")[0]
    assert "Python 3.11" in head
    assert "pyspark" not in head


def test_bench_page_part_names_commits_and_total_time_of_all_its_runs() -> None:
    runs = [{"began": f"2026-01-0{n}T00:00:00+00:00", "seconds": 90.0, "commit": f"c{n}"} for n in (1, 2)]
    text = page.render([_result(runs=runs)])
    assert "Took 3 minutes; commit c1, c2; Abacus" in text
    assert "Measured on 2026-01-01 to 2026-01-02" in text


def test_bench_page_names_the_machine_in_each_part_when_machines_differ() -> None:
    other = {"processor": "Slide rule", "cores": "2", "memory": "8 GiB", "system": "Linux"}
    text = page.render([_result(part="start"), _result(part="throughput", machine=other)])
    first, *parts = text.split("\n## ")
    assert "each part names" in first
    assert [name for part in parts for name in ("Abacus", "Slide rule") if name in part] == ["Abacus", "Slide rule"]


def test_bench_parts_load_in_page_order_and_unknown_parts_are_ignored(tmp_path: Path) -> None:
    for part in ("start", "throughput", "other"):
        (tmp_path / f"{part}.json").write_text(json.dumps(_result(part=part)))
    assert [result["part"] for result in page.load(tmp_path)] == ["throughput", "start"]


def test_bench_page_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="make bench"):
        page.write(tmp_path, tmp_path / "page.md")


def test_later_run_adds_its_samples_to_the_earlier_row() -> None:
    row = Row("tuned", "records/s", {"fencepost": [3.0], "connect": [4.0]}, detail={"fencepost": [{"broker": 1.0}]})
    earlier = Row("tuned", "records/s", {"fencepost": [1.0, 2.0]}, detail={"fencepost": [{"broker": 9.0}]})
    both = row.after(earlier)
    assert both.samples == {"fencepost": [1.0, 2.0, 3.0], "connect": [4.0]}
    assert both.detail == {"fencepost": [{"broker": 9.0}, {"broker": 1.0}]}


def test_bench_result_is_written_with_all_its_runs(tmp_path: Path) -> None:
    for value in (1.0, 2.0):
        result = Result("start", "Start", [], {}, [Row("up", "s", {"fencepost": [value]})], seconds=value)
        result.merge(tmp_path, is_adding=True)
        result.write(tmp_path)
    [found] = page.load(tmp_path)
    assert found["rows"][0]["samples"] == {"fencepost": [1.0, 2.0]}
    assert [run["seconds"] for run in found["runs"]] == [1.0, 2.0]


def test_run_of_some_rows_replaces_these_rows_and_keeps_the_rest(tmp_path: Path) -> None:
    for rows in ([("a", 1.0), ("b", 1.0)], [("b", 2.0)]):
        measured = [Row(name, "s", {"fencepost": [value]}) for name, value in rows]
        result = Result("start", "Start", [], {}, measured)
        result.merge(tmp_path, is_adding=False)
        result.write(tmp_path)
    [found] = page.load(tmp_path)
    assert {row["name"]: row["samples"]["fencepost"] for row in found["rows"]} == {"a": [1.0], "b": [2.0]}


def test_bench_page_omits_a_row_without_samples() -> None:
    row = {
        "name": "never",
        "unit": "s",
        "samples": {"fencepost": []},
        "statistics": ["median"],
        "is_more_better": True,
        "reach": "",
    }
    assert "never" not in page.render([_result(rows=[row])])


def test_bench_row_in_the_terminal_shows_medians_and_their_ratio() -> None:
    row = Row("tuned", "records/s", {"fencepost": [1000.0, 3000.0], "connect": [500.0]})
    assert row.show() == ["tuned, median, records/s: fencepost 2,000 (n 2), connect 500 (n 1), ratio 4.00"]


def test_bench_parts_are_modules_of_the_bench() -> None:
    assert [part for part in page.PARTS if find_spec(f"bench.{part}") is None] == []
