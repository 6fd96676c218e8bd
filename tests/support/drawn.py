"""Tests of which `make test` runs a part, another one each time; `make chaos` runs all.

With `pytest.mark.drawn(2)` half of a directory's tests run, with `drawn(3)` a third: of so many tests that follow each
other one is chosen, so that each module has its share, and each run takes about as long. That is for many examples of
one thing, each of which takes seconds, and for campaigns that prove the same with other parts.
Each run draws anew, in CI as well: a test that turns red there is a find. FENCEPOST_TESTS_DRAWN_BY repeats a choice,
`rest of N` runs what the choice N left out, and `all` runs everything. The end of a run prints what it left out, with
that command. A test that is asked for by name always runs, and so does the only one of its kind in a directory.
"""

import os
import random
import secrets
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.long_form import IS_LONG
from support.seed import GIVEN

DRAW = "FENCEPOST_TESTS_DRAWN_BY"
REST = "rest of "

_LEFT_OUT = pytest.StashKey[Counter[str]]()
_OUTPUT = "tests left out by the draw"


def draw() -> None:
    """Choose what tests are drawn by, for this process and those that it starts."""
    os.environ.setdefault(DRAW, os.environ.get(GIVEN) or str(secrets.randbelow(1_000_000)))


def keep_drawn(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Remove the tests that are not drawn this time."""
    number = os.environ[DRAW]
    is_by_name = any("::" in argument for argument in config.args) or config.getoption("keyword")
    if IS_LONG or number == "all" or is_by_name:
        return
    removed = left_out_by(number.removeprefix(REST), items)
    if number.startswith(REST):
        removed = set(items) - removed
    else:
        _note(config, Counter(str(item.path.relative_to(config.rootpath)) for item in removed))
    config.hook.pytest_deselected(items=[item for item in items if item in removed])
    items[:] = [item for item in items if item not in removed]


def _note(config: pytest.Config, left_out: Counter[str]) -> None:
    config.stash[_LEFT_OUT] = left_out
    if hasattr(config, "workeroutput"):  # a process of xdist: the one that prints does not collect
        config.workeroutput[_OUTPUT] = dict(left_out)


def take_note(config: pytest.Config, output: Mapping[str, Any]) -> None:
    """Keep what a process of xdist left out: all of them leave out the same tests."""
    if _OUTPUT in output:
        config.stash[_LEFT_OUT] = Counter(output[_OUTPUT])


def summary(config: pytest.Config) -> list[str]:
    """Return the lines that say what this run left out, and the command that runs it."""
    left_out = config.stash.get(_LEFT_OUT, Counter())
    if not left_out:
        return []
    files = [f"  {count:4} {file}" for file, count in sorted(left_out.items())]
    # With the same arguments: who is whose neighbour depends on all that is collected.
    rest = f"{DRAW}='{REST}{os.environ[DRAW]}' .venv/bin/pytest {shlex.join(config.invocation_params.args)}"
    return [f"{left_out.total()} drawn tests were left out:", *files, f"To run them: {rest}"]


def left_out_by(number: str, items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Return the tests that do not run where `number` is what tests are drawn by."""
    rooms: dict[tuple[Path, int], list[pytest.Item]] = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("drawn")
        if mark is not None:
            rooms[item.path.parent, mark.args[0]].append(item)
    left_out: set[pytest.Item] = set()
    for (_, of), room in rooms.items():
        for first in range(0, len(room), of):
            neighbours = room[first : first + of]
            chosen = random.Random(f"{number} {neighbours[0].nodeid}").choice(neighbours)
            left_out.update(item for item in neighbours if item is not chosen)
    return left_out
