import time
from dataclasses import replace
from typing import Any

from starlette.testclient import TestClient

from fencepost.cluster.figures import MOST_POINTS, PastFigures, Sample
from fencepost.rest import create_app
from fencepost.rest.ui.series import Series, throughput
from fencepost.rest.ui.series import lag as plot_of_lag
from rest.fake import FakeWorker


def figures(written: int, started_ms: int = 1, lag: int | None = None, task: int = 0) -> dict[str, Any]:
    return {
        "id": task,
        "started_ms": started_ms,
        "records_read_total": written,
        "records_written_total": written,
        "lag_max": lag,
    }


def filled(*samples: tuple[float, list[dict[str, Any]]]) -> Series:
    made = Series()
    for at_s, tasks in samples:
        made.add(at_s, {"c": Sample.of(tasks)})
    return made


def rates(series: Series) -> list[float | None]:
    return [point.written for point in series.points("c")]


def test_rate_is_the_number_of_records_written_between_two_samples() -> None:
    assert rates(filled((0, [figures(100)]), (10, [figures(150)]), (20, [figures(150)]))) == [5, 0]


def test_the_records_of_all_tasks_count() -> None:
    before, after = ([figures(n, task=0), figures(2 * n, task=1)] for n in (0, 10))
    assert rates(filled((0, before), (10, after))) == [3]


def test_a_task_that_starts_again_counts_from_0() -> None:
    assert rates(filled((0, [figures(1000)]), (10, [figures(20, started_ms=9)]))) == [2]


def test_task_without_figures_for_a_while_makes_no_peak() -> None:
    series = filled((0, [figures(1000), figures(0, task=1)]), (10, [figures(0, task=1)]), (20, [figures(1040)]))
    assert rates(series) == [0, 4]


def test_a_long_silence_is_a_gap() -> None:
    series = filled((0, [figures(0)]), (10, [figures(10)]), (100, [figures(20)]), (110, [figures(30)]))
    assert rates(series) == [1, None, 1]
    drawn = throughput(series.points("c"))
    assert drawn is not None
    assert [len(line.pieces) for line in drawn.lines] == [0, 0]  # single points make no lines


def test_old_points_and_deleted_connectors_are_forgotten() -> None:
    series = filled(*((float(n), [figures(n)]) for n in range(2 * MOST_POINTS)))
    assert len(series.points("c")) == MOST_POINTS - 1
    series.add(1e6, {})
    assert series.points("c") == []


def test_plot_has_a_label_that_sums_up_its_values() -> None:
    series = filled(*((10.0 * n, [figures(n * 1000, lag=5 * n)]) for n in range(7)))
    drawn = plot_of_lag(series.points("c"))
    assert drawn is not None
    assert drawn.label == "Lag of the last 50 s: lag 30 now; at most 30"
    assert [text for _, text in drawn.ticks] == ["0", "25", "50"]
    assert plot_of_lag(filled((0, [figures(0)]), (10, [figures(1)])).points("c")) is None


def past(*written: float, since_s: float = 0.0) -> PastFigures:
    at_s = [since_s + 10.0 * n for n in range(len(written))]
    return PastFigures("c", at_s, written, written, [None] * len(written))


def test_series_begins_with_the_kept_samples_and_continues_after_a_gap() -> None:
    series = Series()
    series.begin([past(0, 50, 100)])
    assert rates(series) == [5, 5, None]
    assert series.rate("c") == 5
    series.add(25, {"c": Sample.of([figures(1_000)])})
    series.add(35, {"c": Sample.of([figures(1_020)])})
    assert rates(series) == [5, 5, None, None, 2]


def test_kept_samples_of_several_workers_are_added_up() -> None:
    series = Series()
    series.begin([past(*(30.0 * n for n in range(7))), past(*(60.0 * n for n in range(7)), since_s=4)])
    assert rates(series) == [9, None]


def test_page_shows_the_throughput_from_before_it_was_opened(worker: FakeWorker) -> None:
    worker.kept = [replace(past(0, 50, 100, since_s=time.time() - 20), connector="file")]
    page = TestClient(create_app(worker.operations), base_url="http://localhost:8083").get("/ui/connectors/file").text
    assert ": written 5 /s now" in page
