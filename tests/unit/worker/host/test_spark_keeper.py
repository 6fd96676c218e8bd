"""What a worker does with its tasks when Spark goes, and when the worker itself stops."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.spark.session import SparkError
from fencepost.spark.slot.cores import CoreLedger
from fencepost.worker.host.spark_keeper import SparkKeeper, Times
from support.no_exception import no_exceptions


class SparkKeeperStage:
    """The keeper's neighbours in one: Sparks that go at once, hosts that record calls, and a worker that may stop."""

    context = None
    awaits_frames = True
    cores, is_alive, jvm_pid = 2, True, None
    takes_over, began_last_s = False, 0.0

    def __init__(self, is_stopping: bool) -> None:
        self.is_stopping = is_stopping
        self.stopping = threading.Event()
        self.frames: list[str] = []
        self.slots: list[str] = []
        self.whys: list[str] = []
        self.sessions = self.ready = 0
        self.keeper = self.keep(Times(restart=0.0))

    def keep(self, times: Times) -> SparkKeeper:
        return SparkKeeper(self, CoreLedger(0, reserved=1), self, Frames(self.frames), self, self.stopping, times)

    # Sparks, and one of them

    @property
    def session(self) -> object:
        self.sessions += 1
        return None

    def runtime(self) -> "SparkKeeperStage":
        return self

    def slot_jobs(self, runtime: object, on_end: Any, on_leaving: Any) -> Any:
        return "jobs"

    def on_exit(self, listener: Callable[[str], None]) -> None:
        self.go = listener

    def start(self) -> None: ...

    def stop(self) -> None: ...

    # slots

    def attach(self, jobs: object) -> None:
        self.slots.append("ready" if jobs == "jobs" else "gone")
        if jobs != "jobs":
            self.whys.append(str(jobs))

    def prepare(self, *, is_full: bool) -> None: ...

    def job_ended(self, slot_id: str, error: Exception | None) -> None: ...

    def executor_leaves(self, slot_id: str, for_s: float) -> None: ...

    def wait_until_there(self, timeout_s: float) -> bool:
        if self.is_stopping or self.frames.count("ready") > 1:
            self.stopping.set()
        else:
            self.go("Spark has gone")
        return False

    # the forecast

    def wait_for_offsets(self, timeout_s: float) -> bool:
        return True

    def be_ready(self) -> None:
        self.ready += 1


class Frames:
    def __init__(self, notes: list[str]) -> None:
        self.notes = notes

    def attach(self, runtime: object) -> None:
        self.notes.append("gone" if isinstance(runtime, str) else "ready")


@pytest.mark.parametrize(
    ("is_stopping", "expected"),
    [(False, ["ready", "gone", "ready"]), (True, ["ready"])],
    ids=["spark-goes", "the-worker-stops"],
)
def test_dataframe_tasks_are_lost_only_when_spark_goes(is_stopping: bool, expected: list[str]) -> None:
    """When the worker stops they end by themselves, with the split that is being written."""
    scene = SparkKeeperStage(is_stopping)
    scene.keeper.run()
    assert scene.frames == expected


def test_slots_are_lost_with_spark_and_with_the_worker() -> None:
    scene = SparkKeeperStage(is_stopping=False)
    scene.keeper.run()
    assert scene.slots == ["ready", "gone", "ready", "gone"]


class Looked(threading.Event):
    """Is set once it was looked at so many times."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.looks = looks

    def is_set(self) -> bool:
        self.looks -= 1
        return self.looks < 0


class Idle(SparkKeeperStage):
    """A worker whose slots are there, and that stops after some looks at Spark."""

    def __init__(self, *, awaits_frames: bool, **times: float) -> None:
        super().__init__(is_stopping=False)
        self.awaits_frames = awaits_frames
        self.stopping = Looked(10)
        self.keeper = self.keep(Times(restart=0.0, tick=0.0, **times))

    def wait_until_there(self, timeout_s: float) -> bool:
        return True


@pytest.mark.parametrize("awaits_frames", [True, False])
def test_session_is_made_in_advance_only_when_dataframe_connectors_may_come(
    awaits_frames: bool,
) -> None:
    scene = Idle(awaits_frames=awaits_frames, session_after=-1.0)
    scene.keeper.run()
    assert scene.sessions == awaits_frames


@pytest.mark.parametrize(("by_s", "sessions"), [(3_600.0, 0), (-1.0, 1)])
def test_session_waits_a_limited_time_for_tasks_that_start(
    by_s: float,
    sessions: int,
) -> None:
    scene = Idle(awaits_frames=True, session_by=by_s)
    scene.began_last_s = time.monotonic() + 60.0
    scene.keeper.run()
    assert scene.sessions == sessions


@pytest.mark.parametrize("error", [OSError("a plug-in directory cannot be read"), *no_exceptions()])
def test_spark_is_kept_when_the_search_for_dataframe_connectors_fails(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:

    def broken(_: Any) -> bool:
        raise error

    monkeypatch.setattr(Awaiting, "awaits_frames", property(broken, lambda _self, _value: None))
    scene = Awaiting(awaits_frames=False, session_after=-1.0)
    scene.keeper.run()
    assert (scene.sessions, scene.frames) == (0, ["ready"])


class Awaiting(Idle):
    """Its first connector of DataFrames comes after some looks."""

    looks = 0

    @property
    def awaits_frames(self) -> bool:  # type: ignore[override]
        self.looks += 1
        return self.looks > 3

    @awaits_frames.setter
    def awaits_frames(self, _value: bool) -> None: ...


def test_session_is_made_once_when_the_first_dataframe_connector_has_come() -> None:
    scene = Awaiting(awaits_frames=False, session_after=-1.0)
    scene.keeper.run()
    assert (scene.sessions, scene.looks) == (1, 4)


class WithoutSession(Idle):
    """Its Spark has gone, without a word, when the session is to be made."""

    @property
    def session(self) -> object:
        self.sessions += 1
        raise RuntimeError("the JVM does not answer")


def test_spark_is_kept_when_its_session_cannot_be_made(caplog: pytest.LogCaptureFixture) -> None:
    """Who sees to a Spark that has gone is the very thread that asks for the session."""
    scene = WithoutSession(awaits_frames=True, session_after=-1.0)
    scene.keeper.run()
    assert (scene.sessions, scene.frames, scene.slots) == (1, ["ready"], ["ready", "gone"])
    assert "the JVM does not answer" in caplog.text


class Waiting(Idle):
    """Its slots are there after so many looks."""

    looks = 0

    def wait_until_there(self, timeout_s: float) -> bool:
        self.looks -= 1
        return self.looks < 0


@pytest.mark.parametrize(("looks", "longest_s", "ready"), [(3, 3_600.0, 1), (99, 3_600.0, 0), (99, -1.0, 1)])
def test_worker_is_reported_ready_once_when_slots_run_or_their_time_is_over(
    looks: int,
    longest_s: float,
    ready: int,
) -> None:
    scene = Waiting(awaits_frames=False, slots=longest_s)
    scene.looks = looks
    scene.keeper.run()
    assert scene.ready == ready


def test_tasks_can_run_once_slots_are_there_and_until_spark_goes() -> None:
    scene, seen = Idle(awaits_frames=False), list[bool]()

    def wait(timeout_s: float) -> bool:
        seen.append(scene.keeper.is_ready)
        return True

    def be_ready() -> None:
        seen.append(scene.keeper.is_ready)
        scene.go("Spark has gone")
        seen.append(scene.keeper.is_ready)
        scene.stopping.looks = 0

    scene.wait_until_there, scene.be_ready = wait, be_ready  # type: ignore[method-assign]
    scene.keeper.run()
    assert seen == [False, True, False]


class Failing(SparkKeeperStage):
    """A Spark that cannot be started at first, then runs, and ends."""

    def __init__(self) -> None:
        super().__init__(is_stopping=False)
        self.absences: list[str | None] = []
        self.failures = 2

    def runtime(self) -> "SparkKeeperStage":
        self.absences.append(self.keeper.absence)
        return self

    def start(self) -> None:
        self.failures -= 1
        if self.failures >= 0:
            raise SparkError(f"no Java {self.failures}")

    def wait_until_there(self, timeout_s: float) -> bool:
        self.absences.append(self.keeper.absence)
        return super().wait_until_there(timeout_s)


def test_absence_of_spark_has_a_reason_until_spark_runs_again() -> None:
    scene = Failing()
    scene.keeper.run()
    assert scene.absences == [None, "no Java 1", "no Java 0", None, "Spark has gone", None]
    reasons = ("no Java 1", "no Java 0", "Spark has gone")
    assert scene.whys[:3] == [f"Spark is not running, and is started again: {each}" for each in reasons]


def test_a_spark_that_ends_as_soon_as_it_is_started_is_away() -> None:
    scene = Failing()
    scene.failures = 0
    scene.start = lambda: scene.go("Spark has gone at once")  # type: ignore[method-assign]
    scene.stopping = Looked(5)  # type: ignore[assignment]
    scene.keeper = scene.keep(Times(restart=0.0))
    scene.keeper.run()
    assert scene.keeper.absence == "Spark has gone at once"
