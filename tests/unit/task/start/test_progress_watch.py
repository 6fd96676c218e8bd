"""What is said of a task whose code stands still in another process."""

import re
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from fencepost.reference.limited import LimitedCalls
from fencepost.task.channel.message import HANGS, RETRYING, STANDS_STILL, RunState
from fencepost.task.channel.task_spec import RunSpec, TaskSpec
from fencepost.task.control import Control
from fencepost.task.start.progress import ProgressWatch, stack_of
from fencepost.testing import eventually


class Host:
    """The other process."""

    def __init__(self) -> None:
        self.since: float | None = None
        self.is_in_kafka = False
        self.answers = threading.Event()
        self.asked = 0

    def waits_since(self) -> float | None:
        return self.since

    def waits_for_kafka(self) -> bool:
        return self.is_in_kafka

    def stack(self) -> str:
        self.asked += 1
        self.answers.wait(60)
        return "session-1\n    at b.Task.poll"


@pytest.fixture
def host() -> Iterator[Host]:
    host = Host()
    yield host
    host.answers.set()


@pytest.fixture
def control() -> Control:
    return Control(is_paused=False)


@pytest.fixture
def said(host: Host, control: Control) -> Callable[[], tuple[str, bool, bool]]:
    """Returns the trace, and whether the task is said to stand still, and to hang."""
    spec = TaskSpec("c", 0, 1, "i", {}, {}, run=RunSpec(progress_timeout_ms=60_000))
    watch = ProgressWatch(spec, control, threading.current_thread, lambda: host)

    def of() -> tuple[str, bool, bool]:
        trace, counters = watch.of(RunState.RUNNING)
        return trace or "", bool(counters[STANDS_STILL]), bool(counters[HANGS])

    return of


def test_task_is_stuck_while_its_call_in_another_process_does_not_return(
    said: Callable[[], tuple[str, bool, bool]], host: Host, control: Control
) -> None:
    assert said() == ("", False, False)
    host.since = time.monotonic() - 61
    control.move()
    trace, stands_still, hangs = said()
    assert (stands_still, hangs) == (True, True)
    assert trace.endswith("inside a call of another process")
    host.answers.set()
    whole = eventually(lambda: (text := said()[0]) != trace and text)
    assert whole == f"{trace}\n\nIn the other process it is here:\nsession-1\n    at b.Task.poll"
    assert (said()[0], host.asked) == (whole, 1)
    host.since = None
    assert said() == ("", False, False)


def test_trace_of_a_task_waiting_for_another_process_shows_both_stacks(
    said: Callable[[], tuple[str, bool, bool]], host: Host, control: Control
) -> None:
    control.moved_at -= 61
    host.answers.set()
    trace = eventually(lambda: "session-1" in (text := said()[0]) and text)
    assert f"in {test_trace_of_a_task_waiting_for_another_process_shows_both_stacks.__name__}" in trace


@pytest.mark.parametrize(("caller", "called", "hangs"), [
    ("fencepost.kafka.read.assignment", "fencepost.task.sink.loop", True),
    ("plugin", "fencepost.transaction.writer", False),
    ("fencepost.task.source.loop", "plugin", True),
])  # fmt: skip
def test_task_waits_for_kafka_if_its_innermost_own_call_is_a_client(
    control: Control, caller: str, called: str, hangs: bool
) -> None:
    """A client may have called the connector, and the connector a client."""
    over, inside = threading.Event(), threading.Event()
    inner: dict[str, object] = {"__name__": called}
    outer: dict[str, object] = {"__name__": caller, "called": inner}
    exec("def call(inside, over):\n    inside.set()\n    over.wait(60)", inner)
    exec("def call(*events):\n    called['call'](*events)", outer)
    thread = threading.Thread(target=outer["call"], args=(inside, over))  # type: ignore[arg-type]
    thread.start()
    control.moved_at -= 61
    try:
        assert inside.wait(60)
        watch = ProgressWatch(TaskSpec("c", 0, 1, "i", {}, {}), control, lambda: thread)
        assert watch.of(RunState.RUNNING)[1] == {STANDS_STILL: 1.0, HANGS: float(hangs), RETRYING: 0.0}
    finally:
        over.set()


def test_the_thread_that_looks_up_a_value_for_a_task_is_named_too() -> None:
    over, calls, inside = threading.Event(), LimitedCalls(60), threading.Event()

    def asks_the_store() -> None:
        inside.set()
        over.wait(60)

    thread = threading.Thread(target=calls.call, args=("key", asks_the_store))
    thread.start()
    try:
        assert inside.wait(60)
        eventually(lambda: "done.result(" in stack_of(thread).partition("This waits for:")[0])
        assert "in asks_the_store" in stack_of(thread).partition("This waits for:")[2]
    finally:
        over.set()


def test_a_task_that_waits_for_kafka_in_another_process_does_not_hang(
    said: Callable[[], tuple[str, bool, bool]], host: Host, control: Control
) -> None:
    control.moved_at -= 61
    host.is_in_kafka = True
    assert said()[1:] == (True, False)


def test_slow_start_names_the_call_it_is_stuck_in(control: Control) -> None:
    over, inside = threading.Event(), threading.Event()
    ours: dict[str, object] = {"__name__": "fencepost.task.start.runner"}
    exec("def run(start):\n    start()", ours)

    def start() -> None:
        inside.set()
        over.wait(60)

    thread = threading.Thread(target=ours["run"], args=(start,))  # type: ignore[arg-type]
    thread.start()
    try:
        assert inside.wait(60)
        watch = ProgressWatch(
            TaskSpec("c", 0, 1, "i", {}, {}, run=RunSpec(progress_timeout_ms=60_000)), control, lambda: thread
        )
        assert watch.of(RunState.STARTING)[0] is None
        control.moved_at -= 6
        assert watch.of(RunState.RUNNING)[0] is None
        text, counters = watch.of(RunState.STARTING)
        assert re.fullmatch(
            r"Starting since \S+Z, inside \S+<locals>\.start \(\S+test_progress_watch\.py, line \d+\)", text or ""
        )
        assert counters[STANDS_STILL] == 0
        assert watch.of(RunState.STARTING)[0] == text
        control.moved_at -= 60
        assert (watch.of(RunState.STARTING)[0] or "").startswith("The task has been starting since ")
    finally:
        over.set()
