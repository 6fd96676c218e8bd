"""The loop of a source task, over a delivery that only takes notes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import orjson
import pytest

from fencepost.api import RecordMetadata, RetriableError, SourceRecord, SourceTask
from fencepost.builtin.converter.plain import StringConverter
from fencepost.record import Batch
from fencepost.record.schema import STRING
from fencepost.task.channel.message import RunState
from fencepost.task.control import Control
from fencepost.task.delivery.delivery import Delivery
from fencepost.task.delivery.outgoing import Outgoing, OutgoingColumns
from fencepost.task.source.boundary import Boundary, ConnectorBoundary, IntervalBoundary, PollBoundary
from fencepost.task.source.loop import LoopEnd
from fencepost.transaction import ProduceError
from support.smt import DROP
from support.source_stage import SourceStage, records


class Notes(Delivery):
    """Writes down what reaches Kafka, in order."""

    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.is_sending = False
        self.is_struck = self.is_struck_by_an_abort = False
        self.refuses_to_commit: Exception | None = None
        self.refuses_to_send: Exception | None = None

    @property
    def is_open(self) -> bool:
        return self.is_sending

    @property
    def must_be_replaced(self) -> bool:
        return self.is_struck and not self.is_sending

    def send(self, outgoing: Outgoing, on_delivered: Callable[[int, RecordMetadata], None] | None = None) -> None:
        assert not self.must_be_replaced, "a struck delivery was used (E5)"
        if self.refuses_to_send is not None:
            raise self.refuses_to_send
        assert isinstance(outgoing, OutgoingColumns)
        for index, value in enumerate(outgoing.values):
            self.is_sending = True
            self.log.append(f"send {(value or b'').decode()}")
            if on_delivered is not None:
                source = index if outgoing.sources is None else outgoing.sources[index]
                on_delivered(source, RecordMetadata("t", 0, index, None))

    def commit(self, offsets: Sequence[tuple[bytes, bytes | None]], closing: Any = None) -> bool:
        assert not self.must_be_replaced, "a struck delivery was used (E5)"
        if self.refuses_to_commit is not None:
            raise self.refuses_to_commit
        self.is_sending = False
        self._record_commit()
        self.log.append("commit " + " ".join(orjson.dumps(orjson.loads(v or b"null")).decode() for _, v in offsets))
        return True

    def abort(self) -> None:
        self.is_sending = False
        self.is_struck |= self.is_struck_by_an_abort
        self.log.append("abort")

    def close(self) -> None: ...


class Scripted(SourceTask):
    """Each entry of the script is a batch, or an error; then the task is stopped."""

    def __init__(self, stage: "Stage") -> None:
        self.stage = stage

    def poll(self) -> list[SourceRecord] | None:
        if not self.stage.script:
            self.stage.control.stop()
            return None
        item = self.stage.script.pop(0)
        if callable(item):
            item = item()
        if isinstance(item, Exception):
            raise item
        return item


class Watching(Scripted):
    """Overrides what may be overridden."""

    def update_offsets(self, offsets: Mapping[Any, Any]) -> Any:
        self.stage.log.append("update_offsets")
        return self.stage.update

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        self.stage.log.append(f"commit_record {record.value}{'' if metadata else ' not sent'}")

    def commit(self) -> None:
        self.stage.log.append("committed")


@dataclass
class Stage(SourceStage):
    """A loop and all that it needs."""

    boundary: Boundary = field(default_factory=PollBoundary)
    script: list[Any] = field(default_factory=list)
    task: type[Scripted] = Scripted
    is_exactly_once: bool = True
    update: Any = None
    log: list[str] = field(default_factory=list)
    transforms: dict[str, str] = field(default_factory=dict)
    value_converter: type[StringConverter] = StringConverter
    tolerance: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()
        self.delivery = Notes(self.log)

    def run(self) -> LoopEnd:
        loop = self.loop(
            self.task(self),
            self.boundary,
            is_exactly_once=self.is_exactly_once,
            transforms=self.transforms,
            value_converter=self.value_converter,
            tolerance=self.tolerance,
        )
        return loop.run(self.delivery)

    def replace(self) -> Delivery:
        self.log.append("replaced")
        self.delivery = Notes(self.log)
        return self.delivery

    def report_state(self, state: RunState) -> None:
        if state is RunState.PAUSED:
            self.log.append("paused")
        super().report_state(state)


def test_each_batch_and_the_offset_that_covers_it_are_committed_together() -> None:
    stage = Stage(script=[records("a", "b"), None, records("c")])
    assert stage.run() is LoopEnd.STOPPED
    assert stage.log == ["send a", "send b", 'commit {"at":"b"}', "send c", 'commit {"at":"c"}']
    assert (stage.counters.commits, stage.counters.records_written) == (2, 3)


def test_boundary_calls_task_and_delivery_in_order() -> None:
    stage = Stage(script=[records("a", "b")], task=Watching)
    stage.run()
    assert stage.log[:7] == [
        "send a",
        "send b",
        "update_offsets",
        'commit {"at":"b"}',
        "commit_record a",
        "commit_record b",
        "committed",
    ]


class StoppedInRetry(StringConverter):
    """Cannot convert the value `late` before the task is told to stop."""

    control: ClassVar[Control]

    def from_connect_data(self, topic: str, schema: Any, value: Any) -> bytes | None:
        if value == "late":
            self.control.stop()
            raise RetriableError("the registry is away")
        return super().from_connect_data(topic, schema, value)

    def from_column(self, schema: Any, values: Any) -> Any:
        return None


@pytest.mark.parametrize("is_exactly_once", [True, False])
@pytest.mark.parametrize("tolerated", ["all", "none"])
def test_stop_leaves_out_the_batch_of_a_retrying_converter(is_exactly_once: bool, tolerated: str) -> None:
    stage = Stage(
        IntervalBoundary(3600),
        script=[records("a"), records("b", "late")],
        task=Watching,
        is_exactly_once=is_exactly_once,
        value_converter=StoppedInRetry,
        tolerance={"tolerates_all": tolerated == "all", "retry_timeout_ms": -1},
        update={(("f", 1),): {"at": "late"}},
    )
    StoppedInRetry.control = stage.control
    assert stage.run() is LoopEnd.STOPPED
    assert "late" not in " ".join(stage.log)
    assert "send b" not in stage.log
    assert "committed" not in stage.log, "an author who acknowledges what was polled loses it"
    assert stage.counters.errors.skipped == 0


def test_stop_commits_earlier_batches_when_a_converter_is_retrying() -> None:
    stage = Stage(
        IntervalBoundary(3600),
        script=[records("a"), records("late")],
        value_converter=StoppedInRetry,
        tolerance={"tolerates_all": True, "retry_timeout_ms": -1},
    )
    StoppedInRetry.control = stage.control
    assert stage.run() is LoopEnd.STOPPED
    assert stage.log == ["send a", 'commit {"at":"a"}']


def test_updated_offsets_are_written_without_records() -> None:
    stage = Stage(script=[None], task=Watching, update={(("f", 2),): {"at": "z"}})
    stage.run()
    assert stage.log.count('commit {"at":"z"}') == 1


def test_filtered_records_move_offsets_and_reach_commit_record() -> None:
    stage = Stage(script=[records("x", topic="drop-1")], task=Watching, transforms=DROP)
    stage.run()
    assert stage.log[:4] == ["update_offsets", 'commit {"at":"x"}', "commit_record x not sent", "committed"]


def test_filtered_records_without_an_offset_reach_commit_record() -> None:
    lost = [SourceRecord({"f": 1}, None, "drop-1", "x", STRING)]
    stage = Stage(script=[lost], task=Watching, transforms=DROP)
    stage.run()
    assert stage.log[:3] == ["update_offsets", "commit_record x not sent", "committed"]


def test_failed_commit_moves_no_offset_and_calls_no_task_method() -> None:
    stage = Stage(script=[records("a")], task=Watching)
    stage.delivery.refuses_to_commit = ValueError("broken")
    with pytest.raises(ValueError, match="broken"):
        stage.run()
    assert stage.log == ["send a", "update_offsets"]
    assert stage.book.all_committed() == []
    assert stage.counters.commit_failures == 1


def test_a_retriable_error_of_poll_is_polled_again() -> None:
    stage = Stage(script=[RetriableError("later"), records("a")])
    stage.run()
    assert stage.log == ["send a", 'commit {"at":"a"}']
    assert stage.counters.errors.retries == 1


def test_unfinished_interval_is_committed_at_the_end() -> None:
    stage = Stage(IntervalBoundary(3600), script=[records("a"), records("b")])
    stage.run()
    assert stage.log == ["send a", "send b", 'commit {"at":"b"}']


def test_pause_commits_and_no_records_are_sent_before_the_resume() -> None:
    stage = Stage(IntervalBoundary(3600))
    stage.script = [records("a"), lambda: stage.control.pause() or records("b"), records("c")]
    stage.run()
    assert stage.log == ["send a", "send b", 'commit {"at":"b"}', "paused", "send c", 'commit {"at":"c"}']
    assert stage.states == [RunState.RUNNING, RunState.PAUSED, RunState.RUNNING]  # the first with the first commit


def test_records_without_a_commit_request_are_aborted_at_the_end() -> None:
    stage = Stage(ConnectorBoundary(), script=[records("a")])
    assert stage.run() is LoopEnd.STOPPED
    assert stage.log == ["send a", "abort"]
    assert stage.book.to_write() == []


def test_pause_aborts_uncommitted_records_and_discards_the_instance() -> None:
    stage = Stage(ConnectorBoundary())
    stage.script = [lambda: stage.control.pause() or records("a")]
    assert stage.run() is LoopEnd.DISCARDED
    assert stage.log == ["send a", "abort"]


def test_an_abort_drops_the_records_and_commits_their_offsets() -> None:
    boundary = ConnectorBoundary()
    stage = Stage(boundary, task=Watching)
    stage.script = [lambda: boundary.abort_transaction() or records("a", "b")]
    stage.run()
    assert stage.log[:7] == [
        "send a",
        "send b",
        "abort",
        "update_offsets",
        'commit {"at":"b"}',
        "commit_record a not sent",
        "commit_record b not sent",
    ]


def test_delivery_is_replaced_after_a_failed_abort_before_offsets_commit() -> None:
    boundary = ConnectorBoundary()
    stage = Stage(boundary)
    stage.delivery.is_struck_by_an_abort = True
    stage.script = [lambda: boundary.abort_transaction() or records("a")]
    assert stage.run() is LoopEnd.STOPPED
    assert stage.log == ["send a", "abort", "replaced", 'commit {"at":"a"}']


def test_abort_without_an_open_transaction_has_no_effect() -> None:
    boundary = ConnectorBoundary()
    stage = Stage(boundary)
    stage.script = [lambda: boundary.abort_transaction()]
    stage.run()
    assert stage.log == []


def test_requests_after_records_end_transactions_inside_a_batch() -> None:
    boundary = ConnectorBoundary()
    batch = records("a", "b", "c")
    stage = Stage(boundary)
    stage.script = [lambda: boundary.commit_transaction(batch[0]) or boundary.abort_transaction(batch[1]) or batch]
    stage.run()
    assert stage.log == ["send a", 'commit {"at":"a"}', "send b", "abort", 'commit {"at":"b"}', "send c", "abort"]


def test_a_struck_delivery_is_replaced_before_the_next_transaction() -> None:
    stage = Stage()

    def strike() -> list[SourceRecord]:
        stage.delivery.is_struck = True
        return records("a")

    # The strike is seen while the transaction is open: it ends, and only then the delivery goes.
    stage.delivery.is_sending = True
    stage.script = [strike, records("b")]
    stage.run()
    assert stage.log == ["send a", 'commit {"at":"a"}', "replaced", "send b", 'commit {"at":"b"}']


def test_a_struck_delivery_is_not_used_for_a_last_commit() -> None:
    stage = Stage(task=Watching, update={(("f", 2),): {"at": "z"}})

    def strike_and_stop() -> None:
        stage.update = {(("f", 2),): {"at": "zz"}}
        stage.delivery.is_struck = True
        stage.control.stop()

    original = stage.delivery.commit

    def commit(offsets: Any, closing: Any) -> bool:
        is_done = original(offsets, closing)
        strike_and_stop()
        return is_done

    stage.delivery.commit = commit  # type: ignore[method-assign]
    stage.script = [records("a")]
    assert stage.run() is LoopEnd.STOPPED
    assert "replaced" not in stage.log


def test_at_least_once_commits_only_when_the_flush_is_due_and_at_the_end() -> None:
    stage = Stage(script=[records("a"), records("b")], is_exactly_once=False)
    stage.run()
    assert stage.log == ["send a", "send b", 'commit {"at":"b"}']


def ends(offset: int, count: int = 0) -> Batch:
    values, at = ["v"] * count, [{"at": n} for n in range(count)]
    return Batch(["t"] * count, values, [{"f": 1}] * count, at, STRING, ends=[({"f": 1}, {"at": offset})])


def test_end_positions_are_committed_without_records_even_if_unchanged() -> None:
    stage = Stage(script=[ends(7, count=2), ends(9), ends(9), None, Batch([], [], [], [])])
    stage.run()
    assert stage.log == ["send v", "send v", 'commit {"at":7}', 'commit {"at":9}', 'commit {"at":9}']


@pytest.mark.parametrize("transforms", [{}, DROP])
def test_too_large_record_is_named_with_its_size_and_source_offset(transforms: dict[str, str]) -> None:
    script = [[*records("a", topic="drop me"), *records("b", "x" * 1_500_000, "c")]]
    stage = Stage(script=script, transforms=transforms)
    stage.delivery.refuses_to_send = ProduceError("MSG_SIZE_TOO_LARGE: raise this", is_refused=True)
    with pytest.raises(
        ProduceError, match=r"this\. The record has 1,500,000 bytes, and the limit is 1,000,000: topic t, "
    ):
        stage.run()


def test_refusal_for_another_reason_names_no_record_size() -> None:
    stage = Stage(script=[records("a")])
    stage.delivery.refuses_to_send = ProduceError("TOPIC_EXCEPTION", is_refused=True)
    with pytest.raises(ProduceError, match=r"^TOPIC_EXCEPTION$"):
        stage.run()


def test_poll_that_fails_for_now_is_shown_until_a_poll_succeeds() -> None:
    seen: list[str | None] = []
    stage = Stage()
    look = lambda: seen.append(stage.counters.errors.retried.text)  # noqa: E731
    stage.script = [RetriableError("the database is away"), look, look]
    stage.run()
    assert [(text or "").partition("\n")[0] for text in seen] == ["the database is away", ""]
