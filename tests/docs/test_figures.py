"""Figures in README and docs are those of the committed results of the bench."""

from pathlib import Path

import pytest
from bench import page, readme
from bench.result import COMMITTED

RESULTS = page.load(COMMITTED)


def test_the_page_of_the_bench_is_what_its_results_say() -> None:
    assert page.PAGE.read_text() == page.render(RESULTS)


def test_the_figures_of_the_readme_are_what_the_results_say() -> None:
    _, _, figures = readme.README.read_text().partition(readme.BEGIN)
    assert figures.partition(readme.END)[0] == readme.render(RESULTS)


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
