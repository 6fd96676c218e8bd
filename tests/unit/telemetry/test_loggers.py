"""Levels of loggers that are set while a process runs, and who is told of them."""

import gc
import logging
import uuid
from collections.abc import Iterator

import pytest

from fencepost.telemetry.loggers import Loggers


@pytest.fixture
def name() -> Iterator[str]:
    """Return the name of a logger that nobody else uses."""
    name = f"test-{uuid.uuid4().hex}"
    yield name
    for each in (name, f"{name}.below"):
        logging.getLogger(each).setLevel(logging.NOTSET)


class Follower:
    def __init__(self, loggers: Loggers) -> None:
        self.loggers = loggers
        self.seen: list[dict[str, str]] = []
        loggers.follow(self.changed)

    def changed(self) -> None:
        self.seen.append(self.loggers.chosen())


def test_level_applies_to_child_loggers_until_they_get_their_own(name: str) -> None:
    loggers = Loggers()
    loggers.set_level(f"{name}.below", "ERROR", 1)
    assert loggers.chosen() == {f"{name}.below": "ERROR"}
    loggers.set_level(name, "debug", 2)
    assert loggers.chosen() == {name: "DEBUG"}
    loggers.set_level(f"{name}.below", "INFO", 3)
    assert loggers.chosen() == {name: "DEBUG", f"{name}.below": "INFO"}


def test_followers_get_levels_while_they_are_alive(name: str) -> None:
    loggers = Loggers()
    follower, other = Follower(loggers), Follower(loggers)
    loggers.set_level(name, "DEBUG", 1)
    seen = other.seen
    del other
    gc.collect()
    loggers.set_level(name, "INFO", 2)
    assert follower.seen == [{name: "DEBUG"}, {name: "INFO"}]
    assert seen == [{name: "DEBUG"}]


def test_levels_of_another_process_are_adopted_parents_first(name: str) -> None:
    loggers = Loggers()
    follower = Follower(loggers)
    levels = {f"{name}.below": "ERROR", name: "DEBUG"}
    loggers.adopt(levels, 1)
    assert loggers.chosen() == levels
    assert logging.getLogger(f"{name}.below").getEffectiveLevel() == logging.ERROR
    assert logging.getLogger(f"{name}.other").getEffectiveLevel() == logging.DEBUG
    loggers.adopt(levels, 2)
    assert len(follower.seen) == 2  # the second time nothing changes
