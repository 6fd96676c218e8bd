"""`drawn`: each run of `make test` has another part, as large as any other; `make chaos` has all of it."""

import re
from pathlib import Path
from typing import Any

import pytest

from support.drawn import left_out_by

_ROOT = Path(__file__).parents[3]
_DRAWN = re.compile(r"mark\.drawn\(\d\)")
_RUNS = [str(number) for number in range(60)]


class _Test:
    """A test as pytest has collected it."""

    def __init__(self, path: str, name: str, of: int | None) -> None:
        self.path = Path(path)
        self.nodeid = f"{path}::{name}"
        self._of = of

    def get_closest_marker(self, name: str) -> Any:
        assert name == "drawn"
        return None if self._of is None else pytest.mark.drawn(self._of).mark


def _tests(path: str, count: int, of: int | None) -> list[Any]:
    return [_Test(path, f"test_{number}", of) for number in range(count)]


def test_each_run_leaves_out_as_many_and_every_test_has_its_turn() -> None:
    tests = [*_tests("a/test_a.py", 4, 3), *_tests("a/test_b.py", 5, 3)]
    left_out = [left_out_by(run, tests) for run in _RUNS]
    assert {len(each) for each in left_out} == {6}
    assert set.intersection(*left_out) == set()


def test_tests_far_from_each_other_are_drawn_independently() -> None:
    tests = _tests("a/test_a.py", 6, 2)
    runs = {tuple(test in left_out_by(run, tests) for test in tests) for run in _RUNS}
    assert len(runs) == 8  # one of two, three times


def test_a_number_repeats_what_it_has_chosen() -> None:
    tests = _tests("a/test_a.py", 20, 2)
    assert left_out_by("7", tests) == left_out_by("7", tests)


def test_the_only_test_of_its_kind_is_not_left_out() -> None:
    tests = [*_tests("a/test_a.py", 1, 3), *_tests("b/test_b.py", 1, 3), *_tests("b/test_b.py", 9, None)]
    assert [left_out_by(run, tests) for run in _RUNS] == [set()] * len(_RUNS)


def test_make_chaos_runs_every_file_with_tests_that_are_drawn() -> None:
    recipe = re.search(r"^chaos:.*\n((?:\t.*\n)+)", (_ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    run = [_ROOT / word for word in re.findall(r"tests/\S+", recipe[1])]
    files = [file for file in (_ROOT / "tests").rglob("test_*.py") if _DRAWN.search(file.read_text())]
    assert len(files) > 10
    assert [file for file in files if not any(file.is_relative_to(path) for path in run)] == []
