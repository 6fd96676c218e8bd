"""The harness notices a worker, or a slot, that was ended by a signal which no test has sent."""

import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.worker import CrashedError, Worker

_SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


class Sleeper(Worker):
    """A worker's process that does nothing."""

    def _properties_of_spark(self) -> Mapping[str, str]:
        return {}

    def launch(self) -> None:
        self.begin_log()
        self.process = subprocess.Popen(_SLEEP)


@pytest.fixture
def sleeper(tmp_path: Path) -> Sleeper:
    made = Sleeper("k:9092", tmp_path)
    made.launch()
    return made


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_worker_that_crashed_is_noticed_when_it_is_ended(sleeper: Sleeper, end: str) -> None:
    assert sleeper.process is not None
    sleeper.process.send_signal(signal.SIGSEGV)
    sleeper.process.wait(60)
    with pytest.raises(CrashedError, match="SIGSEGV"):
        getattr(sleeper, end)()


def test_a_worker_that_the_test_ends_did_not_crash(sleeper: Sleeper) -> None:
    sleeper.kill()
    sleeper.launch()
    assert sleeper.stop() == -signal.SIGTERM


@pytest.mark.parametrize(
    ("line", "is_crash"),
    [
        ("ERROR the process of slot a1 was ended by SIGSEGV: Python worker exited", True),
        ("ERROR the process of a split of task c-0 was ended by SIGABRT: Python worker exited", True),
        ("WARNING slot a1 ended: the slot ended with -11", True),
        ("ERROR the process of slot a1 was ended by SIGKILL: Python worker exited", False),
        ("WARNING slot a1 ended: the slot ended with -9", False),
    ],
)
def test_only_a_crashed_slot_is_noticed_not_a_killed_one(sleeper: Sleeper, line: str, is_crash: bool) -> None:
    sleeper.log.write_text(f"before\n{line}\nafter\n")
    try:
        if is_crash:
            with pytest.raises(CrashedError):
                sleeper.check_alive_or_ended()
        else:
            sleeper.check_alive_or_ended()
    finally:
        sleeper.log.unlink()
        sleeper.kill()
