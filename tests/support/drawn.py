"""Tests of which `make test` runs a part, another one each time; `make chaos` runs all.

A table says of which directories one test of so many runs, and `pytest.mark.drawn(n)` says it of a test of any other.
Of so many tests that follow each other in a directory of the table one is chosen: each module has its share, a large
one runs some tests each time, and each run takes about as long. Single tests are chosen, not whole modules: nine tenths
of what a directory costs is in its tests, as modules share the workers, brokers and Sparks that are dear to start.
What guards exactly-once always runs: transactions, the loops of tasks, the model, and campaigns of faults of the
table. A test that skips itself is none of its neighbours.

Each run draws anew, in CI as well: a test that turns red there is a find. FENCEPOST_TESTS_DRAWN_BY repeats a choice,
`rest of N` runs what the choice N left out, and `all` runs everything. The end of a run prints what it left out, with
that command. A test or a file that is asked for by name always runs, and so does the only one of its kind.
"""

import os
import random
import secrets
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

import pytest

from support.long_form import IS_LONG
from support.seed import GIVEN

DRAW = "FENCEPOST_TESTS_DRAWN_BY"
REST = "rest of "

# One test of so many runs: of a directory, of a file, or this test always. The longest name counts.
ONE_OF = {
    "tests/chaos": 10,
    "tests/chaos/test_batch_brokers.py::test_e21_records_arrive_once_with_true_outcomes_while_brokers_move_and_die": 1,
    "tests/chaos/test_file_sink_lines.py": 1,  # a sink of files
    "tests/chaos/test_late_requests.py": 1,  # sources, by requests
    "tests/chaos/test_late_stream_commits.py": 1,  # streams
    "tests/chaos/test_ledger_loss.py": 1,  # the ledger
    "tests/chaos/test_matrix.py": 1,  # sources, by processes
    "tests/chaos/test_postgres_kills.py": 1,  # a source of tables
    "tests/chaos/test_postgres_sink_kills.py": 1,  # a sink of tables
    "tests/chaos/test_query_kills.py": 1,  # streaming queries
    "tests/chaos/test_retention_rounds.py": 1,  # what is deleted
    "tests/chaos/test_sink_matrix.py": 1,  # sinks
    "tests/conformance": 5,
    "tests/conformance/task": 1,
    "tests/conformance/task/test_closing_transforms.py": 3,
    "tests/conformance/task/test_columns_of_a_source.py": 3,
    "tests/conformance/task/test_small_batches.py": 3,
    "tests/conformance/task/test_update_offsets.py": 3,
    "tests/conformance/task/test_written_records.py": 3,
    "tests/conformance/transaction": 1,
    "tests/conformance/transaction/test_broker_away.py": 2,
    "tests/integration": 6,
    "tests/integration/spark": 10,
    "tests/integration/worker": 10,
    "tests/planted": 5,
}

_LEFT_OUT = pytest.StashKey[Counter[str]]()
_OUTPUT = "tests left out by the draw"


def draw() -> None:
    """Choose what tests are drawn by, for this process and those that it starts."""
    os.environ.setdefault(DRAW, os.environ.get(GIVEN) or str(secrets.randbelow(1_000_000)))


def keep_drawn(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Remove the tests that are not drawn this time."""
    number = os.environ[DRAW]
    is_by_name = any(argument.partition("::")[0].endswith(".py") for argument in config.args)
    if IS_LONG or number == "all" or is_by_name or config.getoption("keyword"):
        return
    removed = left_out_by(number.removeprefix(REST), items)
    if number.startswith(REST):
        removed = set(items) - removed
    else:
        _note(config, Counter(str(item.path.parent.relative_to(config.rootpath)) for item in removed))
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
    places = [f"  {count:4} {place}" for place, count in sorted(left_out.items())]
    # With the same arguments: who is whose neighbour depends on all that is collected.
    rest = f"{DRAW}='{REST}{os.environ[DRAW]}' .venv/bin/pytest {shlex.join(config.invocation_params.args)}"
    return [f"{left_out.total()} drawn tests were left out:", *places, f"To run them: {rest}"]


def left_out_by(number: str, items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Return the tests that do not run where `number` is what tests are drawn by."""
    rooms: dict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if not any(mark.args[:1] == (True,) for mark in item.iter_markers("skipif")):
            rooms[_room(item)].append(item)
    left_out: set[pytest.Item] = set()
    for (_, of), room in rooms.items():
        for first in range(0, len(room), of):
            neighbours = room[first : first + of]
            chosen = random.Random(f"{number} {neighbours[0].nodeid}").choice(neighbours)
            left_out.update(item for item in neighbours if item is not chosen)
    return left_out


def _room(item: pytest.Item) -> tuple[str, int]:
    """Return the directory among whose tests a test is drawn, and of how many it is one."""
    file = PurePosixPath(item.nodeid.partition("::")[0])
    mark = item.get_closest_marker("drawn")
    if mark is not None:
        return str(file.parent), mark.args[0]
    names = (item.nodeid.partition("[")[0], str(file), *map(str, file.parents))
    place = next((name for name in names if name in ONE_OF), "")
    return place, ONE_OF.get(place, 1)
