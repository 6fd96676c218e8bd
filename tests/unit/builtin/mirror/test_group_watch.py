"""Watch and WarningLog: looks at an interval, and logs each warning once."""

import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from fencepost.builtin.mirror.schedule import WarningLog, Watch
from fencepost.testing import eventually


class World:
    """What a watch looks at; it may refuse to be looked at."""

    def __init__(self) -> None:
        self.state: object = "first"
        self.looks = 0
        self.told: list[object] = []

    def look(self) -> object:
        self.looks += 1
        if isinstance(self.state, Exception):
            raise self.state
        return self.state


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def watched(world: World) -> Iterator[Callable[[float | None], Watch[object]]]:
    made: list[Watch[object]] = []

    def make(interval_s: float | None = 0.001) -> Watch[object]:
        made.append(Watch("the world", world.look, interval_s, lambda: world.told.append(world.state)))
        made[-1].start()
        return made[-1]

    yield make
    for each in made:
        each.stop()


def looked(world: World, times: int = 3) -> None:
    """Wait for some more looks."""
    wanted = world.looks + times
    eventually(lambda: world.looks >= wanted, every_s=0.001)


def test_watch_reports_no_change_before_its_state_was_first_read(
    world: World, watched: Callable[..., Watch[object]]
) -> None:
    watch = watched()
    looked(world)
    world.state = "second"
    looked(world)
    assert watch.seen() == "second"


def test_change_is_reported_once(world: World, watched: Callable[..., Watch[object]]) -> None:
    watch = watched()
    assert watch.seen() == "first"
    looked(world)
    assert world.told == []
    world.state = "second"
    eventually(lambda: world.told == ["second"], every_s=0.001)
    looked(world)
    assert (world.told, watch.seen()) == (["second"], "second")


def test_last_seen_state_is_kept_while_looks_fail(
    world: World, watched: Callable[..., Watch[object]], caplog: pytest.LogCaptureFixture
) -> None:
    watch = watched()
    assert watch.seen() == "first"
    world.state = OSError("away")
    eventually(lambda: "looking at the world failed" in caplog.text, every_s=0.001)
    assert watch.seen() == "first"
    world.state = "first"
    looked(world)
    assert world.told == []


def test_failure_of_the_first_look_is_raised_to_the_caller(world: World, watched: Callable[..., Watch[object]]) -> None:
    world.state = OSError("away")
    watch = watched(None)
    with pytest.raises(OSError, match="away"):
        watch.seen()
    world.state = "first"
    assert watch.seen() == "first"


def test_watch_without_an_interval_looks_once(world: World, watched: Callable[..., Watch[object]]) -> None:
    threads = set(threading.enumerate())  # one of an earlier test may just be ending
    watch = watched(None)
    assert [watch.seen(), watch.seen(), world.looks] == ["first", "first", 1]
    assert set(threading.enumerate()) <= threads


def test_warning_is_logged_once_while_its_cause_lasts(caplog: pytest.LogCaptureFixture) -> None:
    warnings = WarningLog(logging.getLogger("t"))
    for now in ({"a": "x"}, {"a": "x", "b": "y"}, {"a": "z", "b": "y"}, {}, {"b": "y"}):
        warnings.update(now)
    said = [record.getMessage() for record in caplog.records if record.name == "t"]
    assert said == ["a: x", "b: y", "a: z", "b: y"]
