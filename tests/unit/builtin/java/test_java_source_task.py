"""The task of a Java source: what goes between its loop and the host, over a delivery that takes notes.

The heart of it: a batch from Java has no offsets of single records, so it must never be committed in part.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import wait as futures_wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.api import Batch, FatalError, RecordMetadata
from fencepost.builtin.converter.plain import ByteArrayConverter
from fencepost.builtin.java.error import HostEndedError, JavaError, JavaRetriableError, Thrown
from fencepost.builtin.java.port import Callbacks, CommittedOffsets, Failure, Mark, Processing
from fencepost.builtin.java.source_task import JavaSourceTask
from fencepost.hook.hosted_task import HostedBatch, HostLostError, TaskPlace
from fencepost.plugin import PluginKind
from fencepost.record import partition_key
from fencepost.task.channel.message import RunState
from fencepost.task.channel.task_spec import DeadLetterSpec
from fencepost.task.delivery.delivery import Delivery
from fencepost.task.delivery.outgoing import Outgoing, OutgoingColumns
from fencepost.task.source.boundary import Boundary, ConnectorBoundary, IntervalBoundary, PollBoundary
from fencepost.task.source.loop import HostedContext, LoopEnd
from fencepost.testing import eventually
from support.java_host import ScriptedHost, ScriptedJava, ScriptedTask, polled
from support.scripted_plugins import PRICES, plugins_with
from support.source_stage import SourceStage

NONE = Callbacks(records=False, places=False, commits=False, updates=False)
TELLS = Callbacks(records=True, places=True, commits=True, updates=False)
THROWN = Thrown("java.lang.IllegalStateException", "no table", "stack")


class Transactions(Delivery):
    """Writes down each transaction: the values in it, and the offsets with which it was committed."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.done: list[tuple[list[str], list[int | None]]] = []
        self.aborted: list[list[str]] = []
        self.letters: list[OutgoingColumns] = []
        self.written = 0
        self.before_commit: Callable[[], Any] = lambda: None

    @property
    def is_open(self) -> bool:
        return bool(self.open)

    def send(self, outgoing: Outgoing, on_delivered: Callable[[int, RecordMetadata], None] | None = None) -> None:
        assert isinstance(outgoing, OutgoingColumns)
        for index in range(len(outgoing)) if on_delivered is not None else ():
            source = index if outgoing.sources is None else outgoing.sources[index]
            on_delivered(source, RecordMetadata(outgoing.topics[index], 0, self.written + index, 7))
        self.written += len(outgoing)
        self.open += [(value or b"").decode() for value in outgoing.values]
        self.letters += [outgoing] if outgoing.is_dead_letters else []

    def commit(self, offsets: Sequence[tuple[bytes, bytes | None]], closing: Any = None) -> bool:
        self.before_commit()
        self.done.append((self.open, [None if value is None else orjson.loads(value)["at"] for _, value in offsets]))
        self.open = []
        self._record_commit()
        return True

    def abort(self) -> None:
        self.aborted.append(self.open)
        self.open = []

    def close(self) -> None: ...


class Background(Transactions):
    """Each commit ends once the next one has begun, as it may in a delivery that commits in the background."""

    ended = 0

    def finished(self, *, wait: bool = False) -> Sequence[float]:
        before, self.ended = self.ended, max(self.ended, len(self.done) - (0 if wait else 1))
        return [0.0] * (self.ended - before)


class Stage(SourceStage):
    """A loop over a Java task, with transforms and converters as such a task gets them: none, and bytes."""

    def __init__(
        self,
        directory: Path,
        script: Sequence[Any] = (),
        boundary: Boundary | None = None,
        callbacks: Callbacks = TELLS,
    ) -> None:
        super().__init__()
        self.boundary = boundary or PollBoundary()
        self.java = ScriptedJava()
        self.java.script = [*script, self._stop]
        self.plugins = plugins_with(directory, machine=self.java)
        self.delivery = Transactions()
        properties = {"name": "prices", "task.class": "org.example.Task"}
        config = self.plugins.find(PluginKind.CONNECTOR, PRICES)(properties)
        self.java.callbacks = callbacks
        self.task: JavaSourceTask = config.task_class_for(properties)()
        place = TaskPlace("prices", 0, "incarnation", {"name": "prices", "value.converter": "StringConverter"})
        context = HostedContext(
            place,
            self.counters.errors,
            {"task.class": "org.example.Task", "n": "0"},
            self.book,
            self.control,
            self.boundary if isinstance(self.boundary, ConnectorBoundary) else None,
        )
        self.task.initialize(context, config)

    def _stop(self) -> None:
        self.control.stop()

    def replace(self) -> Delivery:
        return self.delivery

    @property
    def hosted(self) -> ScriptedTask:
        return self.java.tasks[-1]

    @property
    def host(self) -> ScriptedHost:
        return self.java.hosts[-1]

    def run(self, *, is_exactly_once: bool = True, **loop_settings: Any) -> LoopEnd:
        """Start the task, run its loop and stop it, as a runner does."""
        try:
            self.task.start()
            loop = self.loop(
                self.task,
                self.boundary,
                is_exactly_once=is_exactly_once,
                value_converter=ByteArrayConverter,  # type: ignore[arg-type]
                tolerance={"tolerates_all": True},
                **loop_settings,
            )
            return loop.run(self.delivery)
        finally:
            self.task.stop()


def test_the_task_gets_its_configs_its_classes_and_the_committed_offsets(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.book.add([({"f": 1}, {"at": 3})])
    stage.book.seal()
    stage.book.committed()
    stage.run()
    (start,) = stage.java.starts
    assert (start.connector, start.task, start.java_class.name) == ("prices", 0, "org.example.Task")
    assert start.java_class.location == stage.plugins.find(PluginKind.CONNECTOR, PRICES).java.location
    assert start.task_config == {"task.class": "org.example.Task", "n": "0"}
    assert start.classes["StringConverter"].name == "org.apache.kafka.connect.storage.StringConverter"
    assert start.offsets == [({"f": 1}, {"at": 3})]
    assert not start.defines_transactions


def test_each_poll_is_a_transaction_with_its_offset_and_is_reported_to_java(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [polled(0, [b"a", b"b"], 2), None, polled(1, [], 5), polled(2, [b"c"], 6)])
    assert stage.run() is LoopEnd.STOPPED
    assert stage.delivery.done == [(["a", "b"], [2]), ([], [5]), (["c"], [6])]
    told = [text for text in stage.hosted.log if text != "poll"]
    assert told == [
        "commit_records 0 2", "commit [{'at': 2}]",
        "commit_records 1 0", "commit [{'at': 5}]",
        "commit_records 2 1", "commit [{'at': 6}]",
        "stop",
    ]  # fmt: skip


def test_hanging_poll_is_reported_with_the_stack_of_its_java_thread(
    tmp_path: Path,
) -> None:
    over = threading.Event()
    stage = Stage(tmp_path, [polled(0, [b"a"], 1), lambda: over.wait(60) and None])
    stage.java.threads = (
        "main RUNNABLE\n    at a.Main.main(Main.java)\nprices-0 WAITING\n    at b.Task.poll(Task.java:7)\n"
        "prices-01 RUNNABLE\n    at c.Task.poll(Task.java)\n"
    )
    assert (stage.task.waits_since(), stage.task.stack()) == (None, ""), "before its start"
    running = threading.Thread(target=stage.run)
    running.start()
    try:
        eventually(lambda: stage.java.tasks and stage.hosted.log.count("poll") == 2)
        since = eventually(stage.task.waits_since)
        eventually(lambda: stage.control.moved_at > since)
        assert stage.task.waits_since() == since
        assert stage.task.stack() == "prices-0 WAITING\n    at b.Task.poll(Task.java:7)"
    finally:
        over.set()
        running.join()
    assert (stage.task.waits_since(), stage.delivery.done) == (None, [(["a"], [1])])


def test_empty_batch_without_an_offset_is_reported_without_a_transaction(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [polled(0, [], None)])
    stage.run()
    assert stage.delivery.done == []
    assert stage.hosted.log == ["poll", "commit_records 0 0", "commit []", "poll", "stop"]


def test_commit_record_is_called_only_for_tasks_that_implement_it(tmp_path: Path) -> None:
    callbacks = Callbacks(records=False, places=False, commits=True, updates=False)
    stage = Stage(tmp_path, [polled(0, [b"a"], 1)], callbacks=callbacks)
    stage.run()
    assert stage.hosted.log == ["poll", "commit [{'at': 1}]", "poll", "stop"]


def test_task_that_reads_record_metadata_gets_the_offset_of_each_record(tmp_path: Path) -> None:
    """Rows of dropped records have no place; each part of a poll has its own."""
    first = replace(polled(0, [b"x", b"a"], 2, is_whole=False), processing=Processing(failures=(dropped(0, 1),)))
    stage = Stage(tmp_path, [first, polled(1, [b"b"], 3)])
    stage.run()
    assert stage.hosted.places == [(0, [None, RecordMetadata("t", 0, 0, 7)]), (1, [RecordMetadata("t", 0, 1, 7)])]


def test_task_that_ignores_record_metadata_gets_commits_without_offsets(tmp_path: Path) -> None:
    callbacks = Callbacks(records=True, places=False, commits=True, updates=False)
    script = [polled(0, [b"a"], 1, Mark.COMMIT), polled(1, [b"b"], 2, Mark.ABORT)]
    stage = Stage(tmp_path, script, ConnectorBoundary(), callbacks)
    stage.run()
    assert stage.hosted.places == [(0, None), (1, [])]


def updating(update: Callable[[CommittedOffsets], CommittedOffsets], directory: Path, **stage: Any) -> Stage:
    made = Stage(directory, callbacks=Callbacks(records=False, places=False, commits=True, updates=True), **stage)
    made.java.update = update
    return made


def test_java_may_change_the_offsets_about_to_be_committed(tmp_path: Path) -> None:
    """Also without a record, between two polls; and its reader of offsets learns of it."""
    asked: list[CommittedOffsets] = []

    def update(offsets: CommittedOffsets) -> CommittedOffsets:
        asked.append(list(offsets))
        return [({"f": 1}, {"at": 10})] if offsets else [({"f": 2}, {"at": 20}), ({"f": 3}, None)]

    stage = updating(update, tmp_path, script=[polled(0, [b"a"], 1), None])
    stage.run()
    assert asked[:2] == [[({"f": 1}, {"at": 1})], []]
    assert stage.delivery.done[:2] == [(["a"], [10]), ([], [20, None])]
    told = [text for text in stage.hosted.log if text.startswith("commit")]
    assert told[:2] == ["commit [{'at': 10}]", "commit [{'at': 20}, None]"]


def test_offsets_are_updated_with_at_least_once_delivery(tmp_path: Path) -> None:
    stage = updating(lambda offsets: [({"f": 2}, {"at": 20})], tmp_path, script=[polled(0, [b"a"], 1)])
    stage.run(is_exactly_once=False)
    written = [value for values, _ in stage.delivery.done for value in values]
    assert written == ["a", '{"at":1}', '{"at":20}']


@pytest.mark.parametrize("finds", [False, True], ids=["that finds nothing", "and for its records to be sent"])
def test_offset_update_waits_for_a_running_poll_when_a_commit_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finds: bool
) -> None:
    now = [0.0]
    waits = threading.Event()

    def wait(*arguments: Any) -> Any:
        waits.set()
        return futures_wait(*arguments)

    monkeypatch.setattr("fencepost.builtin.java.source_task.wait", wait)
    asked: list[CommittedOffsets] = []

    def update(offsets: CommittedOffsets) -> CommittedOffsets:
        asked.append(list(offsets))
        return []

    stage = updating(update, tmp_path, boundary=IntervalBoundary(1.0, lambda: now[0]))
    gate = Gate(stage, polled(1, [b"b"], 2) if finds else None)
    stage.java.script = [polled(0, [b"a"], 1), gate, stage._stop]
    thread, ends = running(stage)
    assert gate.is_reached.wait(60)
    now[0] = 2.0
    assert waits.wait(60)
    assert asked == []
    gate.is_open.set()
    thread.join(60)
    assert ends == [LoopEnd.STOPPED]
    assert asked[0] == [({"f": 1}, {"at": 2 if finds else 1})]
    if finds:  # Java's position was 2 when 1 was committed
        assert stage.delivery.done[0] == (["a"], [1])
    assert [value for values, _ in stage.delivery.done for value in values] == ["a", *["b"] * finds]


def test_offset_update_interrupts_a_poll_when_the_task_has_to_stop(tmp_path: Path) -> None:
    stage = updating(lambda offsets: [], tmp_path, boundary=IntervalBoundary(1e9))
    gate = Gate(stage)
    stage.java.script = [polled(0, [b"a"], 1), gate]
    thread, ends = running(stage)
    assert gate.is_reached.wait(60)
    stage.control.stop()
    thread.join(60)
    assert ends == [LoopEnd.STOPPED]
    assert stage.delivery.done == [(["a"], [1])]


def test_offset_update_at_a_pause_does_not_interrupt_a_poll(tmp_path: Path) -> None:
    """The offsets are committed as they are, and the task goes on with what the poll returns."""
    asked: list[CommittedOffsets] = []

    def update(offsets: CommittedOffsets) -> CommittedOffsets:
        asked.append(list(offsets))
        return []

    def report(state: RunState) -> None:
        if state is RunState.PAUSED:
            was_interrupted.append("interrupt" in stage.hosted.log)
        gate.is_open.set()
        Stage.report_state(stage, state)

    was_interrupted: list[bool] = []
    stage = updating(update, tmp_path, boundary=IntervalBoundary(1e9))
    gate = Gate(stage, polled(1, [b"b"], 2))
    stage.java.script = [polled(0, [b"a"], 1), gate, stage._stop]
    stage.report_state = report  # type: ignore[method-assign]
    thread, ends = running(stage)
    assert gate.is_reached.wait(60)
    stage.control.pause()
    thread.join(60)
    assert ends == [LoopEnd.STOPPED]
    assert stage.states == [RunState.RUNNING, RunState.PAUSED, RunState.RUNNING]  # the first with the first commit
    assert stage.delivery.done == [(["a"], [1]), (["b"], [2])]
    assert was_interrupted == [False]
    assert asked == [[({"f": 1}, {"at": 2})]]


@pytest.mark.parametrize("is_exactly_once", [True, False])
def test_null_offset_from_java_removes_the_committed_one(tmp_path: Path, is_exactly_once: bool) -> None:
    gone = polled(0, [b"a"], 1)
    gone = replace(gone, batch=replace(gone.batch, ends=(({"f": 1}, None),)))
    stage = updating(lambda offsets: [], tmp_path, script=[gone])
    stage.book.add([({"f": 1}, {"at": 3})])
    stage.book.seal()
    stage.book.committed()
    stage.run(is_exactly_once=is_exactly_once)
    assert stage.book.all_committed() == []
    expected = [(["a"], [None])] if is_exactly_once else [(["a"], []), ([""], [])]
    assert stage.delivery.done == expected


def test_transactions_end_where_the_task_marks_commit_or_abort(tmp_path: Path) -> None:
    script = [
        polled(0, [b"a"], 1),
        polled(1, [b"b"], 2, Mark.COMMIT),
        polled(2, [b"c"], 3),
        polled(3, [b"d"], 4, Mark.ABORT),
        polled(4, [b"e"], 5),
    ]
    stage = Stage(tmp_path, script, ConnectorBoundary())
    stage.run()
    assert stage.java.starts[0].defines_transactions
    assert stage.delivery.done == [(["a", "b"], [2]), ([], [4])]  # KIP-618: offsets of aborted records are committed
    assert stage.delivery.aborted == [["c", "d"], ["e"]]
    told = [text for text in stage.hosted.log if text.startswith("commit_records")]
    assert told == ["commit_records 0 1", "commit_records 1 1", "commit_records 2 0", "commit_records 3 0"]


def test_abort_does_not_cover_committed_records_that_were_not_reported_yet(tmp_path: Path) -> None:
    """Commits are not reported between two parts of one poll, each of which ends its transaction."""
    script = [polled(0, [b"a"], 1, Mark.COMMIT, is_whole=False), polled(1, [b"b"], 2, Mark.ABORT)]
    stage = Stage(tmp_path, script, ConnectorBoundary())
    stage.run()
    assert stage.delivery.done == [(["a"], [1]), ([], [2])]
    told = [text for text in stage.hosted.log if text.startswith("commit_records")]
    assert told == ["commit_records 0 1", "commit_records 1 0"]


@settings(max_examples=12, deadline=None)  # each makes a thread, and waits for it a few times
@given(
    sizes=st.lists(st.tuples(st.integers(0, 4), st.sampled_from([None, *Mark])), max_size=8),
    kind=st.sampled_from(["poll", "interval", "connector"]),
    is_full=st.booleans(),
)
def test_a_batch_is_never_committed_in_part(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[tuple[int, Mark | None]], kind: str, is_full: bool
) -> None:
    """Whatever ends transactions: each one has whole batches, and the offset of the last of them."""
    boundary = {
        "poll": PollBoundary,
        "interval": lambda: IntervalBoundary(0.0 if is_full else 1e9),
        "connector": ConnectorBoundary,
    }[kind]()
    script = [
        polled(number, [f"{number}.{i}".encode() for i in range(size)], number, mark if kind == "connector" else None)
        for number, (size, mark) in enumerate(sizes)
    ]
    stage = Stage(tmp_path_factory.getbasetemp() / "whole-batches", script, boundary)
    stage.delivery.__class__ = type("Full", (Transactions,), {"is_full": is_full})
    stage.run()
    expected = {number: size for number, (size, _) in enumerate(sizes)}
    position = -1
    for values, offsets in stage.delivery.done:
        batches = [int(value.partition(".")[0]) for value in values]
        for number in set(batches):
            assert batches.count(number) == expected[number]
        if batches:
            assert position < batches[0]
            assert batches[-1] <= offsets[0]
        position = max([position, *offsets])
    sent = [value for values, _ in stage.delivery.done for value in values]
    assert len(set(sent)) == len(sent)


def test_commits_are_reported_after_a_covering_flush_with_at_least_once(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [polled(0, [b"a"], 1), polled(1, [b"b"], 2)])
    assert stage.run(is_exactly_once=False) is LoopEnd.STOPPED
    assert stage.delivery.done == [(["a", "b"], [2])]
    told = ["commit_records 0 1", "commit_records 1 1", "commit [{'at': 2}]"]
    assert stage.hosted.log == ["poll", "poll", "poll", *told, "stop"]


def test_poll_is_retried_after_a_retriable_error_and_others_fail_the_task(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [JavaRetriableError("away", THROWN), polled(0, [b"a"], 1), JavaError("no table", THROWN)])
    with pytest.raises(FatalError, match="no table"):
        stage.run()
    assert stage.delivery.done == [(["a"], [1])]
    assert stage.counters.errors.retries == 1


def test_an_error_of_commit_is_logged_as_in_kafka_connect(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(tmp_path, [polled(0, [b"a"], 1), polled(1, [b"b"], 2)])
    stage.task.start()

    def refuse(offsets: Any) -> None:
        raise JavaError("no table", THROWN)

    stage.hosted.commit = refuse  # type: ignore[method-assign]
    loop = stage.loop(stage.task, stage.boundary, value_converter=ByteArrayConverter)  # type: ignore[arg-type]
    assert loop.run(stage.delivery) is LoopEnd.STOPPED
    stage.task.stop()
    assert len(stage.delivery.done) == 2
    assert "an error in commit() or commitRecord() is ignored" in caplog.text


class Gate:
    """A poll that waits until the test lets it go; an interrupt ends it, too, unless it ignores that."""

    def __init__(self, stage: Stage, then: Any = None, *, ignores_interrupts: bool = False) -> None:
        self.stage, self.then, self.ignores_interrupts = stage, then, ignores_interrupts
        self.is_reached, self.is_open = threading.Event(), threading.Event()

    def __call__(self) -> Any:
        self.is_reached.set()
        while not self.is_open.wait(0.01):
            self.stage.host.ensure_alive()
            if self.stage.hosted.is_interrupted.is_set() and not self.ignores_interrupts:
                raise JavaError("interrupted", THROWN)
        if isinstance(self.then, Exception):
            raise self.then
        return self.then


def running(stage: Stage) -> tuple[threading.Thread, list[Any]]:
    """Run a stage in a thread; its end, or its error, is in the list."""
    ends: list[Any] = []

    def run() -> None:
        try:
            ends.append(stage.run())
        except BaseException as error:
            ends.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, ends


def committed_amid_a_poll(
    tmp_path: Path, answer: Any, then: Any = None
) -> tuple[Stage, Gate, threading.Thread, list[Any]]:
    """Run a stage until what its first poll has returned is committed, while a gate holds the second one.

    The second one's `answer` follows, and then another or the stop of the task.
    """
    now = [0.0]
    stage = Stage(tmp_path, boundary=IntervalBoundary(1.0, lambda: now[0]))
    gate = Gate(stage, answer)
    stage.java.script = [polled(0, [b"a"], 1), gate, then or stage._stop]
    thread, ends = running(stage)
    assert gate.is_reached.wait(60)
    now[0] = 2.0
    eventually(lambda: stage.delivery.done == [(["a"], [1])], within_s=60)
    return stage, gate, thread, ends


def test_commit_does_not_wait_for_a_slow_poll_and_is_reported_after_the_poll(tmp_path: Path) -> None:
    stage, gate, thread, _ = committed_amid_a_poll(tmp_path, None)
    assert "commit [{'at': 1}]" not in stage.hosted.log  # Java may have read more than that
    gate.is_open.set()
    thread.join(60)
    assert "commit [{'at': 1}]" in stage.hosted.log


def test_commit_during_a_poll_is_reported_with_the_records_of_that_poll(tmp_path: Path) -> None:
    stage, gate, thread, _ = committed_amid_a_poll(tmp_path, polled(1, [b"b"], 2))
    gate.is_open.set()
    thread.join(60)
    assert stage.delivery.done == [(["a"], [1]), (["b"], [2])]
    assert [text for text in stage.hosted.log if "records" in text] == ["commit_records 0 1", "commit_records 1 1"]
    assert stage.hosted.log.index("commit_records 0 1") > stage.hosted.log.index("poll", 1)  # the second one


def test_a_poll_that_comes_in_parts_is_one_transaction(tmp_path: Path) -> None:
    """Its records may have one offset: part of them with it would be all that is ever read of them."""
    parts = [polled(0, [b"a"], 1, is_whole=False), polled(1, [b"b"], 1, is_whole=False), polled(2, [b"c", b"d"], 1)]
    stage = Stage(tmp_path, parts)
    stage.run()
    assert stage.delivery.done == [(["a", "b", "c", "d"], [1])]
    told = ["commit_records 0 1", "commit_records 1 1", "commit_records 2 2", "commit [{'at': 1}]"]
    assert stage.hosted.log == ["poll", "poll", "poll", *told, "poll", "stop"]


def test_a_poll_that_waits_is_interrupted_when_the_task_is_to_stop(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    gate = Gate(stage)
    stage.java.script = [gate]
    thread, ends = running(stage)
    assert gate.is_reached.wait(60)
    stage.control.stop()
    thread.join(60)
    assert ends == [LoopEnd.STOPPED]
    assert [*dict.fromkeys(stage.hosted.log)] == ["poll", "interrupt", "stop"]


def test_an_interrupt_that_comes_too_early_is_repeated(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    gate = Gate(stage)
    stage.java.script = [gate]
    thread, ends = running(stage)
    assert gate.is_reached.wait(60)
    interrupts: list[bool] = []
    interrupt = stage.hosted.interrupt
    stage.hosted.interrupt = lambda: interrupt() if interrupts else interrupts.append(True)  # type: ignore[method-assign]
    stage.control.stop()
    thread.join(60)
    assert ends == [LoopEnd.STOPPED]


@pytest.mark.parametrize("has_read", [False, True])
def test_records_committed_during_the_last_poll_are_reported_at_the_end(tmp_path: Path, has_read: bool) -> None:
    now = [0.0]
    stage = Stage(tmp_path, boundary=IntervalBoundary(1.0, lambda: now[0]))
    gate = Gate(stage, polled(1, [b"b"], 2) if has_read else None, ignores_interrupts=True)
    stage.java.script = [polled(0, [b"a"], 1), gate]
    thread, _ = running(stage)
    assert gate.is_reached.wait(60)
    stage.control.stop()
    eventually(lambda: "interrupt" in stage.hosted.log, within_s=60)  # the loop is over
    gate.is_open.set()
    thread.join(60)
    assert stage.delivery.done == [(["a"], [1])]
    told = [] if has_read else ["commit [{'at': 1}]"]  # Java would take all that it has read for committed
    assert [each for each in stage.hosted.log if each != "interrupt"][2:] == ["commit_records 0 1", *told, "stop"]


def test_committed_records_are_reported_when_later_records_are_aborted(tmp_path: Path) -> None:
    """A stop does not commit what comes after the task's own last commit."""
    script = [polled(0, [b"a"], 1, Mark.COMMIT, is_whole=False), polled(1, [b"b"], 2)]
    stage = Stage(tmp_path, script, ConnectorBoundary())
    assert stage.run() is LoopEnd.STOPPED
    assert (stage.delivery.done, stage.delivery.aborted) == ([(["a"], [1])], [["b"]])
    assert stage.hosted.log == ["poll", "poll", "commit_records 0 1", "poll", "stop"]


def test_records_committed_during_a_poll_are_reported_before_the_next_poll(tmp_path: Path) -> None:
    """The next commit may be far away, and never come."""
    failure = JavaError("no table", THROWN)
    stage, gate, thread, ends = committed_amid_a_poll(tmp_path, polled(1, [b"b"], 2), failure)
    gate.is_open.set()
    thread.join(60)
    assert "no table" in str(ends)
    assert stage.hosted.log == ["poll", "poll", "commit_records 0 1", "poll", "stop"]


def test_commit_is_not_called_on_java_after_a_failed_poll(tmp_path: Path) -> None:
    stage, gate, thread, _ = committed_amid_a_poll(tmp_path, JavaError("no table", THROWN))
    gate.is_open.set()
    thread.join(60)
    assert stage.hosted.log == ["poll", "poll", "commit_records 0 1", "stop"]


def test_records_of_a_poll_that_ends_after_the_stop_are_not_delivered(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    gate = Gate(stage, polled(0, [b"a"], 1), ignores_interrupts=True)
    stage.java.script = [gate]
    thread, _ = running(stage)
    assert gate.is_reached.wait(60)
    stage.control.stop()
    eventually(lambda: "interrupt" in stage.hosted.log, within_s=60)  # the loop is over
    gate.is_open.set()
    thread.join(60)
    assert stage.delivery.done == []
    assert stage.hosted.log[-1] == "stop"


def test_host_is_killed_when_an_abandoned_task_ignores_interrupts(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    gate = Gate(stage, ignores_interrupts=True)
    stage.java.script = [gate]
    thread, ends = running(stage)
    assert gate.is_reached.wait(60)
    stage.control.stop()
    eventually(lambda: "interrupt" in stage.hosted.log, within_s=60)
    stage.task.abandon()
    thread.join(60)
    assert ends == [LoopEnd.STOPPED]
    assert stage.host.end == (
        "it was killed: task prices-0 did not stop in time, and nothing but the end of its process can end it"
    )


def test_host_loss_names_its_cause_and_all_tasks_of_the_host(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.java.script = [polled(0, [b"a"], 1), HostEndedError("exit code 3: out of memory")]
    stage.plugins.find(PluginKind.CONNECTOR, PRICES).plugins.hosts.tasks.take("neighbour")
    with pytest.raises(HostLostError) as caught:
        stage.run()
    assert str(caught.value) == "the host (a JVM) of its slot ended: exit code 3: out of memory"
    assert caught.value.companions == {"incarnation", "neighbour"}
    assert caught.value.is_crash
    assert stage.delivery.done == [(["a"], [1])]


def test_task_is_not_suspected_when_its_host_is_killed_for_another_task(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    gate = Gate(stage)
    stage.java.script = [gate]
    neighbour = stage.plugins.find(PluginKind.CONNECTOR, PRICES).plugins.hosts.tasks.take("neighbour")
    thread, ends = running(stage)
    assert gate.is_reached.wait(60)
    neighbour.kill("task other-0 did not stop in time")
    thread.join(60)
    (error,) = ends
    assert isinstance(error, HostLostError)
    assert "task other-0 did not stop in time" in str(error)
    assert not error.is_crash


def test_task_that_cannot_start_releases_the_shared_host(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    lease = stage.plugins.find(PluginKind.CONNECTOR, PRICES).plugins.hosts.tasks.take("neighbour")

    def refuse(start: Any) -> Any:
        raise JavaError("no database", THROWN)

    stage.host.source_task = refuse  # type: ignore[method-assign]
    with pytest.raises(FatalError, match="no database"):
        stage.run()
    assert lease.companions() == {"neighbour"}


def dropped(row: int, at: int) -> Failure:
    return Failure(
        row, "VALUE_CONVERTER", "org.example.BadData", "no number", "org.example.Numbers", "its stack", {"at": at}
    )


def test_dropped_records_and_retries_are_counted_and_their_rows_are_not_sent(tmp_path: Path) -> None:
    failures = (dropped(0, 1), dropped(2, 3))
    one = replace(polled(0, [b"x", b"a", b"y"], 3), processing=Processing(failures=failures, retries=4))
    stage = Stage(tmp_path, [one, polled(1, [b"b"], 4)])
    stage.run()
    errors = stage.counters.errors
    assert (errors.errors, errors.skipped, errors.failures, errors.retries, errors.dead_letters) == (2, 2, 2, 4, 0)
    assert stage.delivery.done == [(["a"], [3]), (["b"], [4])]


def test_dead_letters_are_in_the_transaction_with_the_offset_past_them(tmp_path: Path) -> None:
    """Also those of a later part of the same poll, whose rows come after those of the parts before."""
    first = replace(polled(0, [b"x", b"a"], 2, is_whole=False), processing=Processing(failures=(dropped(0, 1),)))
    second = replace(polled(1, [b"b", b"y"], 4), processing=Processing(failures=(dropped(1, 4),)))
    stage = Stage(tmp_path, [first, second])
    stage.dead_letters = DeadLetterSpec("dead", headers=True)
    stage.run()
    assert stage.delivery.done == [(["a", "b", "x", "y"], [4])]
    (letters,) = stage.delivery.letters
    assert list(letters.topics) == ["dead", "dead"]
    headers = [dict(each) for each in letters.headers or ()]
    assert [each["__connect.errors.offset"] for each in headers] == [b'{"at":1}', b'{"at":4}']
    assert (
        headers[0].items()
        >= {
            "__connect.errors.topic": b"t",
            "__connect.errors.partition": b'{"f":1}',
            "__connect.errors.stage": b"VALUE_CONVERTER",
            "__connect.errors.class.name": b"org.example.Numbers",
            "__connect.errors.exception.class.name": b"org.example.BadData",
            "__connect.errors.exception.message": b"no number",
            "__connect.errors.exception.stacktrace": b"its stack",
        }.items()
    )
    assert stage.counters.errors.dead_letters == 2


def test_aborted_transaction_discards_its_dead_letters(tmp_path: Path) -> None:
    one = replace(polled(0, [b"x", b"a"], 2, Mark.ABORT), processing=Processing(failures=(dropped(0, 1),)))
    stage = Stage(tmp_path, [one], ConnectorBoundary())
    stage.dead_letters = DeadLetterSpec("dead")
    stage.run()
    assert stage.delivery.aborted == [["a", "x"]]
    assert stage.delivery.done == [([], [2])]


def test_a_batch_with_dropped_records_is_not_divided() -> None:
    batch = HostedBatch.of(polled(0, [b"x", b"a"], 2).batch, ())
    assert batch.slice(0, 2) is batch
    with pytest.raises(ValueError, match="is not divided"):
        batch.slice(0, 1)


def test_a_paused_task_does_not_poll(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.java.script = [lambda: stage.control.pause(), polled(0, [b"a"], 1), stage._stop]
    stage.run()
    assert stage.states == [RunState.PAUSED, RunState.RUNNING, RunState.RUNNING]  # the last with the first commit
    assert stage.delivery.done == [(["a"], [1])]


def test_batch_from_java_is_columnar(tmp_path: Path) -> None:
    batch = polled(0, [b"a"], 1).batch
    assert isinstance(batch, Batch)
    assert [partition_key(partition) for partition, _ in batch.ends] == [partition_key({"f": 1})]


@pytest.mark.parametrize("callback", Callbacks._fields)
def test_task_with_commit_callbacks_polls_only_after_them(tmp_path: Path, callback: str) -> None:
    callbacks = NONE._replace(**{callback: True})
    stage = Stage(tmp_path, [polled(0, [b"a"], 1), polled(1, [b"b"], 2)], callbacks=callbacks)
    committed: list[int] = []
    stage.java.script = [each if callable(each) else _noted(each, committed, stage) for each in stage.java.script]
    stage.run()
    assert committed == [0, 1]
    assert not type(stage.task).polls_ahead


def test_task_without_commit_callbacks_polls_during_a_commit(tmp_path: Path) -> None:
    """Its offset reader learns of commits with later polls, and of nothing else."""
    stage = Stage(tmp_path, callbacks=NONE)
    begun = threading.Event()

    def second() -> Any:
        begun.set()
        return polled(1, [b"b"], 2)

    stage.java.script = [polled(0, [b"a"], 1), second, stage._stop]
    stage.delivery.before_commit = lambda: begun.wait(60)
    stage.run()
    assert stage.delivery.done == [(["a"], [1]), (["b"], [2])]
    told = [text for text in stage.hosted.log if text != "poll"]
    assert told == ["commit [{'at': 1}]", "commit [{'at': 2}]", "stop"]
    assert type(stage.task).polls_ahead


def test_offset_reader_gets_each_commit_once_the_commit_has_ended(tmp_path: Path) -> None:
    """The next batch is sent and about to be committed by then. It may be lost: nothing of it is known yet."""
    stage = Stage(tmp_path, [polled(0, [b"a"], 1), polled(1, [b"b"], 2)], callbacks=NONE)
    stage.delivery = Background()
    stage.run(runs_ahead=True)
    assert stage.delivery.done == [(["a"], [1]), (["b"], [2])]
    assert [text for text in stage.hosted.log if text.startswith("commit")] == [
        "commit [{'at': 1}]",
        "commit [{'at': 2}]",
    ]


def test_records_polled_ahead_are_dropped_when_the_task_stops(tmp_path: Path) -> None:
    stage = Stage(tmp_path, callbacks=NONE)
    ahead = threading.Event()

    def second() -> Any:
        stage.control.stop()
        ahead.set()
        return polled(1, [b"b"], 2)

    stage.java.script = [polled(0, [b"a"], 1), second]
    stage.delivery.before_commit = lambda: ahead.wait(60)
    stage.run()
    assert stage.delivery.done == [(["a"], [1])]
    assert [offset for _, offset in stage.book.all_committed()] == [{"at": 1}]


def _noted(item: Any, committed: list[int], stage: Stage) -> Callable[[], Any]:
    def poll() -> Any:
        committed.append(len(stage.delivery.done))
        return item

    return poll
