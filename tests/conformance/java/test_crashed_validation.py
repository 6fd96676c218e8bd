"""Questions in one host, one of which crashes it: the others are answered."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fencepost.builtin.java.client.host import JavaHost
from fencepost.builtin.java.connector import class_for
from fencepost.builtin.java.index import JavaIndex
from fencepost.builtin.java.plugins import JavaHosts, JavaPlugins
from fencepost.builtin.java.port import HostOptions, JavaClass, Location
from fencepost.builtin.java.questions import Questions
from fencepost.builtin.java.start import start_host
from fencepost.config import ConfigError
from fencepost.testing.verdict import eventually
from support.quick import QUICK

_SECONDS = 120  # for the start of a host beside other tests


@pytest.fixture
def started() -> Iterator[list[JavaHost]]:
    """Return the hosts that were started, in their order; none runs afterwards."""
    made: list[JavaHost] = []
    yield made
    for each in made:
        each.kill("the test is over")


@pytest.fixture
def questions(started: list[JavaHost], tmp_path: Path) -> Questions:
    def start(options: HostOptions) -> JavaHost:
        started.append(start_host(options))
        return started[-1]

    return JavaPlugins(JavaIndex([]), JavaHosts([QUICK], start), class_for, facts_directory=tmp_path).questions


def test_validation_is_answered_when_another_plugin_crashes_the_host(
    questions: Questions, started: list[JavaHost], plugins: Location, tmp_path: Path
) -> None:
    scripted, here = JavaClass("tests.ScriptedConnector", plugins), tmp_path / "hangs"
    waiting = {"polls": "a", "hangs": "loop", "once": str(here)}
    with ThreadPoolExecutor(1) as pool:
        innocent = pool.submit(questions.validated, scripted, waiting)
        eventually(here.exists, within_s=_SECONDS)
        with pytest.raises(ConfigError) as crashed:
            questions.validated(scripted, {"polls": "a", "hangs": "crash"})
        polls, _ = innocent.result(_SECONDS)
    assert "tests.Hang.crash" in str(crashed.value)  # and not the stack of who waited
    assert polls.value == "a"
    assert len(started) == 3
    assert all(each.end is not None for each in started)
