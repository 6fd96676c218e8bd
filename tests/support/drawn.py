"""Tests of which `make test` runs a part, another one each time; `make chaos` runs all.

A module with `pytestmark = pytest.mark.drawn(2)` has half of its tests run, `drawn(3)` a third: many examples of one
thing, each of which takes seconds. FENCEPOST_TESTS_DRAWN_BY repeats a choice; where examples are to stay the same, it
is the commit; `all` runs them all. A test that is asked for by name is always run.
"""

import os
import secrets
import subprocess
import zlib

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
    drawn = {item for item in items if _is_drawn(item)}
    config.hook.pytest_deselected(items=[item for item in items if item not in drawn])
    items[:] = [item for item in items if item in drawn]


def _is_drawn(item: pytest.Item) -> bool:
    mark = item.get_closest_marker("drawn")
    return mark is None or zlib.crc32(f"{os.environ[DRAW]} {item.nodeid}".encode()) % mark.args[0] == 0


def _number() -> str:
    if os.environ.get("FENCEPOST_SAME_EXAMPLES"):
        head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
        return head.stdout.strip() or "0"
    return str(secrets.randbelow(1_000_000))
