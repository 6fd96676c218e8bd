"""`drawn`: each run of `make test` has another part, as large as any other; `make chaos` has all of it."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from support import drawn
from support.drawn import DRAW, ONE_OF, keep_drawn, left_out_by, summary, take_note

_ROOT = Path(__file__).parents[3]
_DRAWN = re.compile(r"mark\.drawn\(\d\)")
_RUNS = [str(number) for number in range(60)]


class _Test:
    """A test as pytest has collected it."""

    def __init__(self, path: str, name: str, of: int | None, skips: bool | None = None) -> None:
        self.path = Path(path)
        self.nodeid = f"{path.removeprefix('/r/')}::{name}"
        self._of, self._skips = of, skips

    def iter_markers(self, name: str) -> list[Any]:
        assert name == "skipif"
        return [] if self._skips is None else [SimpleNamespace(args=(self._skips,))]

    def get_closest_marker(self, name: str) -> Any:
        assert name == "drawn"
        return None if self._of is None else pytest.mark.drawn(self._of).mark


def _tests(path: str, count: int, of: int | None) -> list[Any]:
    return [_Test(path, f"test_{number}", of) for number in range(count)]


def _config() -> Any:
    params = SimpleNamespace(args=("-n", "5", "a"))
    hook = SimpleNamespace(pytest_deselected=lambda items: None)
    return SimpleNamespace(
        args=["a"],
        getoption=lambda _: "",
        hook=hook,
        stash=pytest.Stash(),
        rootpath=Path("/r"),
        invocation_params=params,
    )


def _run(
    monkeypatch: pytest.MonkeyPatch, number: str, tests: list[Any], config: Any = None
) -> tuple[list[Any], list[str]]:
    """Return the tests that run, and the summary."""
    monkeypatch.setenv(DRAW, number)
    monkeypatch.setattr("support.drawn.IS_LONG", False)
    config, items = config or _config(), list(tests)
    keep_drawn(config, items)
    return items, summary(config)


def test_each_run_leaves_out_equally_many_tests_and_none_always() -> None:
    tests = [*_tests("a/test_a.py", 4, 3), *_tests("a/test_b.py", 5, 3)]
    left_out = [left_out_by(run, tests) for run in _RUNS]
    assert {len(each) for each in left_out} == {6}
    assert set.intersection(*left_out) == set()


def test_skipped_test_takes_no_place_of_another() -> None:
    skips: list[Any] = [_Test("a/test_a.py", f"skips_{number}", 3, skips=True) for number in range(6)]
    tests = [*skips, *_tests("a/test_a.py", 3, 3), _Test("a/test_a.py", "runs", 3, skips=False)]
    for run in _RUNS:
        left_out = left_out_by(run, tests)
        assert len(left_out) == 2
        assert left_out.isdisjoint(skips)


def test_tests_far_from_each_other_are_drawn_independently() -> None:
    tests = _tests("a/test_a.py", 6, 2)
    runs = {tuple(test in left_out_by(run, tests) for test in tests) for run in _RUNS}
    assert len(runs) == 8  # one of two, three times


def test_draw_with_the_same_number_leaves_out_the_same_tests() -> None:
    tests = _tests("a/test_a.py", 20, 2)
    assert left_out_by("7", tests) == left_out_by("7", tests)


def test_rest_of_a_draw_is_the_tests_that_were_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    tests = [*_tests("/r/a/test_a.py", 5, 2), *_tests("/r/a/test_b.py", 2, None)]
    run = {number: _run(monkeypatch, number, tests)[0] for number in ("7", "rest of 7", "all")}
    assert run["all"] == tests
    assert sorted(run["7"] + run["rest of 7"], key=tests.index) == tests
    assert set(tests[5:]) <= set(run["7"])


def test_summary_prints_directories_left_out_and_the_command_that_runs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    _, lines = _run(monkeypatch, "7", [*_tests("/r/a/test_a.py", 4, 2), *_tests("/r/a/test_b.py", 3, None)])
    assert lines == [
        "2 drawn tests were left out:",
        "     2 a",
        f"To run them: {DRAW}='rest of 7' .venv/bin/pytest -n 5 a",
    ]
    assert _run(monkeypatch, "all", _tests("/r/a/test_a.py", 4, 2))[1] == []


def test_summary_reaches_the_printing_process_from_a_collecting_one(monkeypatch: pytest.MonkeyPatch) -> None:
    collecting, printing = _config(), _config()
    collecting.workeroutput = {}
    lines = _run(monkeypatch, "7", _tests("/r/a/test_a.py", 4, 2), collecting)[1]
    take_note(printing, collecting.workeroutput)
    assert summary(printing) == lines != []


def test_the_only_test_of_its_kind_is_not_left_out() -> None:
    tests = [*_tests("a/test_a.py", 1, 3), *_tests("b/test_b.py", 1, 3), *_tests("b/test_b.py", 9, None)]
    assert [left_out_by(run, tests) for run in _RUNS] == [set()] * len(_RUNS)


def test_directory_of_the_table_is_drawn_with_those_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn, "ONE_OF", {"a": 4, "a/all": 1, "a/b/test_d.py": 2, "a/b/test_e.py::test_0": 1})
    mixed = [*_tests("a/b/test_c.py", 3, None), *_tests("a/c/test_c.py", 5, None)]
    for run in _RUNS:
        assert len(left_out_by(run, mixed)) == 6
        assert len(left_out_by(run, _tests("a/b/test_d.py", 6, None))) == 3
        assert len(left_out_by(run, _tests("a/b/test_c.py", 6, 3))) == 4, "a mark counts more"
        assert left_out_by(run, [*_tests("a/all/test_f.py", 9, None), *_tests("b/test_g.py", 9, None)]) == set()
        assert "a/b/test_e.py::test_0" not in {
            test.nodeid for test in left_out_by(run, _tests("a/b/test_e.py", 9, None))
        }


@pytest.mark.parametrize("asked", ["tests/integration/a/test_a.py", "tests/integration/a/test_a.py::test_0"])
def test_file_or_test_asked_for_by_name_runs_whole(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    config, tests = _config(), _tests("/r/tests/integration/a/test_a.py", 6, None)
    assert len(_run(monkeypatch, "7", tests, config)[0]) == 1
    config.args = [asked]
    assert _run(monkeypatch, "7", tests, config)[0] == tests


def test_names_in_the_table_exist() -> None:
    for name in ONE_OF:
        file, _, test = name.partition("::")
        assert (_ROOT / file).exists(), name
        assert not test or f"def {test}(" in (_ROOT / file).read_text(), name


def test_tests_of_transactions_tasks_and_the_model_always_run() -> None:
    heart = ("conformance/transaction", "conformance/task", "model")
    tests = [test for name in heart for test in _tests(f"tests/{name}/test_a.py", 9, None)]
    assert [left_out_by(run, tests) for run in _RUNS] == [set()] * len(_RUNS)


def test_make_chaos_runs_every_file_with_tests_that_are_drawn() -> None:
    recipe = re.search(r"^chaos:.*\n((?:\t.*\n)+)", (_ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    run = [_ROOT / word for word in re.findall(r"tests/\S+", recipe[1])]
    files = [file for file in (_ROOT / "tests").rglob("test_*.py") if _DRAWN.search(file.read_text())]
    assert len(files) > 3
    places = [*files, *(_ROOT / name.partition("::")[0] for name, of in ONE_OF.items() if of > 1)]
    assert [place for place in places if not any(place.is_relative_to(path) for path in run)] == []
