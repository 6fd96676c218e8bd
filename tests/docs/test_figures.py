"""Figures in README and docs are those of the committed results of the bench."""

from pathlib import Path
from typing import Any

import pytest
from bench import page, plot, readme
from bench.result import COMMITTED

RESULTS = page.load(COMMITTED)


def test_the_page_of_the_bench_is_rendered_from_its_results() -> None:
    assert page.PAGE.read_text() == page.render(RESULTS)


def test_the_figures_of_the_readme_are_rendered_from_the_results() -> None:
    _, _, figures = readme.README.read_text().partition(readme.BEGIN)
    assert figures.partition(readme.END)[0] == readme.render(RESULTS)


def test_the_pictures_of_the_bench_are_rendered_from_its_results() -> None:
    assert {file.name: file.read_text() for file in plot.PLOTS.iterdir()} == plot.pictures(RESULTS)


def test_a_bar_is_longer_than_one_if_fencepost_is_better_and_shorter_if_worse() -> None:
    def row(ours: float, theirs: float, *, is_more_better: bool) -> dict[str, Any]:
        return {
            "name": "a row",
            "unit": "s",
            "samples": {"fencepost": [ours], "connect": [theirs]},
            "statistics": ["median"],
            "is_more_better": is_more_better,
        }

    rows = [row(2, 1, is_more_better=True), row(2, 1, is_more_better=False), row(0, 1, is_more_better=True)]
    assert [bar.times for bar in plot.bars({"rows": rows})] == [2, 0.5]
    assert plot.plot({"title": "none", "rows": rows[2:]}) is None


def test_figures_are_written_between_their_marks_and_the_rest_stays(tmp_path: Path) -> None:
    file = tmp_path / "README.md"
    file.write_text(f"before\n{readme.BEGIN}old\n{readme.END}behind\n")
    readme.write(RESULTS, file)
    assert file.read_text() == f"before\n{readme.BEGIN}{readme.render(RESULTS)}{readme.END}behind\n"
    file.write_text("nothing")
    with pytest.raises(ValueError, match="has no place for figures"):
        readme.write(RESULTS, file)
    with pytest.raises(ValueError, match=r"in throughput\.json, which the README needs"):
        readme.render([])
