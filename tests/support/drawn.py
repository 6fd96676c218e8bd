"""Tests of which `make test` runs a part, another one each time; `make chaos` runs all.

With `pytest.mark.drawn(2)` half of a directory's tests run, with `drawn(3)` a third: of so many tests that follow each
other one is chosen, so that each module has its share, and each run takes about as long. That is for many examples of
one thing, each of which takes seconds, and for campaigns that prove the same with other parts.
FENCEPOST_TESTS_DRAWN_BY repeats a choice; where examples are to stay the same, it is the commit; `all` runs them all.
A test that is asked for by name is always run, and so is one of a file that is run alone.
"""

import os
import random
import secrets
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

from support.long_form import IS_LONG
from support.seed import GIVEN

DRAW = "FENCEPOST_TESTS_DRAWN_BY"


def draw() -> None:
    """Choose what tests are drawn by, for this process and those that it starts."""
    os.environ.setdefault(DRAW, os.environ.get(GIVEN) or _number())


def keep_drawn(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Remove the tests that are not drawn this time."""
    if (
        IS_LONG
        or os.environ[DRAW] == "all"
        or any("::" in argument for argument in config.args)
        or config.getoption("keyword")
    ):
        return
    left_out = left_out_by(os.environ[DRAW], items)
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


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


def _number() -> str:
    if os.environ.get("FENCEPOST_SAME_EXAMPLES"):
        head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
        return head.stdout.strip() or "0"
    return str(secrets.randbelow(1_000_000))
