"""The work of an epoch ends before anything else happens."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.task.control import Control
from fencepost.testing import eventually
from fencepost.worker.host.epoch import membership as work_module
from fencepost.worker.host.epoch.membership import CutShortError, EpochWork


class Jobs:
    """Of Spark. Work waits for `ends`, which is set by the cancellation of that number."""

    def __init__(self, heeds: int = 1) -> None:
        self.task, self.group = "t-0", None
        self.runtime = SimpleNamespace(session=SimpleNamespace(sparkContext=None))
        self.ends, self.running, self.cancelled = threading.Event(), 0, 0
        self._heeds = heeds

    def adopt_thread(self) -> None: ...

    def cancel(self, group: str) -> None:
        assert group == self.group
        self.cancelled += 1
        if self.cancelled == self._heeds:
            self.ends.set()

    def write(self) -> str:
        self.running += 1
        self.ends.wait(60)
        self.running -= 1
        return "token"


class Membership:
    """Whose member does something at each poll."""

    def __init__(self, poll: Callable[[], object]) -> None:
        self.input: Any = SimpleNamespace(poll=lambda *_: poll())
        self.held = SimpleNamespace(changes=0)

    def leave(self) -> None:
        self.input = None


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_module, "_LAST_WORK_S", 0.05)
    monkeypatch.setattr(work_module, "job_group", lambda *_: threading.Lock())


def test_work_is_cancelled_and_ends_when_the_members_poll_raises() -> None:
    jobs = Jobs()

    def refused() -> None:
        eventually(lambda: jobs.running)
        raise PermissionError("the group is refused")

    membership: Any = Membership(refused)
    work = EpochWork(membership, jobs, Control(is_paused=False), SimpleNamespace())  # type: ignore[arg-type]
    with pytest.raises(PermissionError):
        work.run("write", jobs.write)
    assert jobs.running == 0
    assert jobs.cancelled
    assert membership.input is None  # it may have missed changes of its partitions


@pytest.mark.parametrize("heeds", [1, 3])
def test_nothing_is_written_once_partitions_are_released(heeds: int) -> None:
    """Also when the job does not heed the first cancellation."""
    jobs = Jobs(heeds)
    running: list[int] = []

    def revoked() -> None:
        eventually(lambda: jobs.running or running)
        if not running:
            work.end()
            running.append(jobs.running)
            membership.held.changes += 1

    membership: Any = Membership(revoked)
    work = EpochWork(membership, jobs, Control(is_paused=False), SimpleNamespace())  # type: ignore[arg-type]
    with pytest.raises(CutShortError):
        work.run("write", jobs.write)
    assert running == [0]
    assert jobs.cancelled >= heeds


def test_nothing_is_written_once_a_stop_has_ended_the_work() -> None:
    jobs, control = Jobs(heeds=3), Control(is_paused=False)
    membership: Any = Membership(lambda: jobs.running and control.stop())
    work = EpochWork(membership, jobs, control, SimpleNamespace())  # type: ignore[arg-type]
    with pytest.raises(CutShortError):
        work.run("write", jobs.write)
    assert jobs.running == 0
