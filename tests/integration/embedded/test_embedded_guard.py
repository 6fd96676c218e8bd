"""The broker does not outlive us, however we end."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from fencepost.testing import eventually
from support.quick import QUICK, quick_kafka

_PARENT = """
    import os, signal, sys
    from fencepost.embedded import EmbeddedKafka
    kafka = EmbeddedKafka(jvm_options=["{quick}"])
    kafka.start()
    forked = os.fork() if {forks} else 0
    if forked or not {forks}:
        print(kafka.pid, kafka.directory, forked, flush=True)
    signal.pause()
"""


class _Parent:
    """A process with a broker of its own."""

    def __init__(self, *, forks: bool) -> None:
        script = textwrap.dedent(_PARENT).format(forks=forks, quick=QUICK)
        self.process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        with self.process.stdout as announced:
            pid, directory, forked = announced.readline().split()
        self.broker = psutil.Process(int(pid))
        self.directory = Path(directory)
        self.forked = int(forked)

    def is_broker_gone(self) -> bool:
        return not self.broker.is_running() or self.broker.status() == psutil.STATUS_ZOMBIE

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.forked:
            with suppress(ProcessLookupError):
                os.kill(self.forked, signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)


@pytest.fixture
def parent(request: pytest.FixtureRequest) -> Iterator[_Parent]:
    parent = _Parent(forks=getattr(request, "param", False))
    yield parent
    parent.end()


@pytest.mark.parametrize("parent", [False, True], indirect=True, ids=["alone", "with_a_forked_child"])
def test_broker_and_temporary_data_are_gone_when_the_parent_was_killed(parent: _Parent) -> None:
    assert parent.directory.exists()
    parent.process.kill()
    parent.process.wait()
    eventually(parent.is_broker_gone, within_s=60)
    eventually(lambda: not parent.directory.exists(), within_s=60)


@pytest.mark.skipif(sys.platform != "linux", reason="asks the Linux kernel")
def test_broker_is_gone_when_the_guard_was_killed(parent: _Parent) -> None:
    guard = parent.broker.parent()
    assert guard is not None
    guard.kill()
    eventually(parent.is_broker_gone, within_s=60)


def test_a_broker_that_was_killed_from_outside_is_noticed() -> None:
    with quick_kafka() as kafka:
        os.kill(kafka.pid, signal.SIGKILL)
        eventually(lambda: not kafka.is_running, within_s=60)
        kafka.start()
        assert kafka.is_running
