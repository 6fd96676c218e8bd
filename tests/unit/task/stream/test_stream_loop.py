"""What the loop of a stream sends and commits, call by call: group and producers are made up."""

import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any

import pytest

from fencepost.api import FatalError, SinkBatch, StreamTask, TopicPartition
from fencepost.builtin.converter.plain import ByteArrayConverter
from fencepost.builtin.transform.chain import Chain
from fencepost.kafka.read.known_positions import Restart
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.position import GroupOffset
from fencepost.task.channel.message import RunState
from fencepost.task.channel.task_spec import CommitSpec, InputSpec, TaskSpec
from fencepost.task.delivery.delivery import TopicCreation
from fencepost.task.delivery.outgoing import Outgoing
from fencepost.task.failure.tolerance import StoppedInRetryError, Tolerance
from fencepost.task.sink import reader
from fencepost.task.sink.processing import SinkProcessor
from fencepost.task.sink.reader import BatchSize
from fencepost.task.source.processing import Processor
from fencepost.task.start.run import StreamCounters, TaskRun
from fencepost.task.stream.processing import StreamContext, StreamProcessor, StreamStep
from fencepost.task.stream.runner import StreamLoop
from fencepost.task.stream.transactions import StreamBoundary, StreamIntervalBoundary, StreamPollBoundary
from fencepost.task.tracing.tracing import NO_TRACING
from fencepost.transaction import CommitUnknownError, StaleMemberError
from support.group_stage import A, B, GroupStage, Moment, fetched
from support.noted_tracing import NotedTracing


class Passing(StreamTask):
    """Passes everything on; `fails` has what its next calls raise."""

    def __init__(self) -> None:
        self.fails: list[Exception] = []

    def process(self, batch: SinkBatch) -> SinkBatch:
        if self.fails:
            raise self.fails.pop(0)
        return batch.to("out")


class Delivery:
    is_full = False
    """Commits as soon as they are asked about, unless they are `held`; `fails` is what the next one ends with."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log
        self.is_open = False
        self.is_held = False
        self.is_worn = False
        self.fails: Exception | None = None
        self._begun: deque[dict[TopicPartition, int]] = deque()

    def is_ready(self) -> bool:
        return not self.is_worn

    def send(self, outgoing: Outgoing, on_delivered: Any = None) -> None:
        self.is_open = True
        self.log.append(("send", len(outgoing)))

    def commit_in_group(self, positions: Sequence[GroupOffset], group_metadata: Any, check: Callable[[], None]) -> None:
        self.is_open = False
        offsets = {TopicPartition(each.topic, each.partition): each.offset for each in positions}
        self.log.append(("commit", offsets, group_metadata))
        self._begun.append(offsets)

    def finished(self, *, wait: bool = False) -> Sequence[float]:
        if self._begun and self.fails is not None:
            raise self.fails
        if not self._begun or (self.is_held and not wait):
            return ()
        count = len(self._begun)
        self._begun.clear()
        self.log.append(("committed", count))
        return [0.0] * count


class Stage(GroupStage):
    def __init__(
        self,
        boundary: StreamBoundary | None = None,
        flush_interval_ms: int = 60_000,
        most_records: int = 500,
        resets_to: str = "earliest",
        is_traced: bool = False,
        **read: Any,
    ) -> None:
        super().__init__()
        self.counters = StreamCounters(state=RunState.RUNNING)
        self.task, self.delivery = Passing(), Delivery(self.log)
        consumer = {"group.id": "g", "auto.offset.reset": resets_to}
        read_by = InputSpec(consumer, most_records=most_records, **read)
        commits = CommitSpec(offset_flush_interval_ms=flush_interval_ms)
        spec = TaskSpec("c", 0, 1, "i", {}, {}, commits=commits, input=read_by)
        tolerance = Tolerance(False, 0, 0, False, False, self.control, "c-0", self.counters.errors)
        plain = ByteArrayConverter({})
        processor = StreamProcessor(
            spec,
            SinkProcessor(Chain(), plain, plain, plain, tolerance),
            Processor(Chain(), plain, plain, plain, tolerance),
        )
        context = StreamContext({}, self.control, processor.report)
        self.task.initialize(context, None)
        self.replaced = 0
        tracing = NotedTracing(self.log) if is_traced else NO_TRACING
        self.loop = StreamLoop(
            TaskRun(spec, self.control, self.counters, self.states.append, tracing),
            StreamStep(self.task, context, processor, self.counters, BatchSize(most_records)),
            boundary or StreamPollBoundary(),
            TopicCreation((), {}),
            self._replace,
        )

    def _replace(self) -> tuple[Any, bool]:
        self.replaced += 1
        self.delivery.is_worn = False
        return self.delivery, True

    def run(self, *moments: Moment) -> list[Any]:
        self.moments += moments
        self.loop.run(self.group, self.delivery)  # type: ignore[arg-type]
        return self.log

    # moments

    def records(self, place: TopicPartition, start: int, count: int = 1, end: int | None = None) -> Moment:
        ends = {} if end is None else {place: end}
        found = fetched(*((place, offset) for offset in range(start, start + count)), ends=ends)
        return lambda: found

    def told(self, call: Callable[[Collection[TopicPartition]], None], *places: TopicPartition) -> Moment:
        """Return a poll with a revocation or a loss. As in the client, an error of `call` is raised by the poll."""

        def tell(of: Collection[TopicPartition]) -> None:
            call(of)
            self.log.append("granted")

        return self.taken_back(places, tell)


def commit(**offsets: int) -> tuple[str, dict[TopicPartition, int], str]:
    return "commit", {(A, B)["ab".index(name)]: offset for name, offset in offsets.items()}, "generation 1"


NOTHING = Fetched


@pytest.mark.parametrize(
    "read",
    [{"topics": ("t", "out")}, {"topics_regex": "t|o.*"}, {"topics": ("t",), "resend_topic": "out"}],
    ids=["a name", "a pattern", "letters that are sent again"],
)
def test_stream_fails_when_it_would_send_to_a_topic_that_it_reads(read: dict[str, Any]) -> None:
    """Whoever names it: it would be read again, for ever."""
    stage = Stage(**read)
    with pytest.raises(FatalError, match=r"to topic out, which this stream reads"):
        stage.run(stage.assigned(a=0), stage.records(A, 0))
    assert not [each for each in stage.log if each[0] in ("send", "commit")]


def test_batch_is_a_transaction_with_its_next_offsets_and_group_metadata() -> None:
    stage = Stage()
    log = stage.run(stage.assigned(a=5), stage.records(A, 5, 2), stage.records(A, 7))
    assert log == [("send", 2), commit(a=7), ("committed", 1), ("send", 1), commit(a=8), ("committed", 1)]
    assert stage.counters.commits == 2


def test_records_get_the_context_of_their_batch_before_they_are_sent() -> None:
    stage = Stage(is_traced=True)
    log = stage.run(stage.assigned(a=5), stage.records(A, 5, 2))
    batch = ["batch of 2 begins", "stamped 2", ("send", 2), "batch of 2 ends"]
    assert log == [*batch, commit(a=7), "commit begins", ("committed", 1), "commit ends", "over"]


def test_sent_records_are_committed_even_if_the_group_has_that_offset() -> None:
    """The topic was deleted, made anew, and has as many records as the group has read of the old one."""
    stage = Stage()
    log = stage.run(stage.assigned(a=2), stage.records(A, 0, 2))
    assert log == [("send", 2), commit(a=2), ("committed", 1)]


def test_batches_read_during_a_commit_become_one_transaction() -> None:
    stage = Stage()
    stage.delivery.is_held = True
    batches = [stage.records(A, n) for n in range(3)]
    log = stage.run(stage.assigned(a=0, b=0), *batches, stage.records(B, 0), NOTHING)
    one = ("send", 1)
    assert log == [one, commit(a=1), one, one, one, ("committed", 1), commit(a=3, b=1), ("committed", 1)]


def test_large_transaction_does_not_wait_for_the_previous_commit() -> None:
    stage = Stage()
    stage.delivery.is_held = True
    log = stage.run(stage.assigned(a=0), stage.records(A, 0), stage.records(A, 1, 20_000), stage.records(A, 20_001))
    assert log[:4] == [("send", 1), commit(a=1), ("send", 20_000), commit(a=20_001)]


@pytest.mark.parametrize(("most", "transactions"), [(2, 1), (3, 3)])
def test_waiting_batches_become_one_transaction(most: int, transactions: int) -> None:
    stage = Stage(StreamPollBoundary(lambda: 0.0), most_records=most)
    stage.run(stage.assigned(a=0), *(stage.records(A, start, 2) for start in (0, 2, 4)), NOTHING)
    assert sum(entry[0] == "commit" for entry in stage.log) == transactions


def test_stream_that_never_catches_up_still_commits() -> None:
    stage = Stage(StreamPollBoundary(lambda: time.monotonic() + 1), most_records=2)
    stage.run(stage.assigned(a=0), stage.records(A, 0, 2), stage.records(A, 2, 2), NOTHING)
    assert sum(entry[0] == "commit" for entry in stage.log) == 2


def test_transaction_ends_with_its_interval() -> None:
    passed_s = [0.0]
    stage = Stage(StreamIntervalBoundary(5_000, lambda: time.monotonic() + passed_s[0]))
    seen: list[Any] = []

    def later() -> Fetched:
        seen.append(list(stage.log))
        passed_s[0] = 5_000.0
        return Fetched()

    def look() -> Fetched:
        seen.append(list(stage.log))
        return Fetched()

    stage.run(stage.assigned(a=0), stage.records(A, 0), stage.records(A, 1), NOTHING, later, look)
    sent = [("send", 1), ("send", 1)]
    assert seen == [sent, [*sent, commit(a=2), ("committed", 1)]]


def test_output_of_a_log_that_is_cut_is_committed_with_the_offset_of_the_cut() -> None:
    """Without an offset, the next start would process again what the log still has."""
    stage = Stage(StreamIntervalBoundary(5_000, time.monotonic))

    def cut() -> Fetched:
        stage.group.starts.known.go_back({A: 7})
        return Fetched()

    log = stage.run(stage.assigned(a=5), stage.records(A, 5, 4), cut)
    assert log == [("send", 4), commit(a=7), ("committed", 1)]


def test_e19_a_revocation_is_granted_when_all_that_was_sent_is_committed() -> None:
    stage = Stage(StreamIntervalBoundary(60))
    log = stage.run(
        stage.assigned(a=0, b=0), stage.records(A, 0), stage.told(stage.loop.revoked, A, B), stage.records(A, 1)
    )
    assert log[:4] == [("send", 1), commit(a=1), ("committed", 1), "granted"]
    assert not [entry for entry in log[4:] if entry[0] == "commit"]  # nothing of what is others' is


@pytest.mark.parametrize("error", [StaleMemberError("stale"), CommitUnknownError("unknown")])
def test_e19_failed_commit_at_a_revocation_ends_the_instance(
    error: Exception,
) -> None:
    stage = Stage(StreamIntervalBoundary(60))
    stage.delivery.fails = error
    with pytest.raises(type(error)):
        stage.run(stage.assigned(a=0, b=0), stage.records(A, 0), stage.told(stage.loop.revoked, A))
    stage.loop.revoked([B])  # as it leaves the group
    assert [entry for entry in stage.log if entry[0] == "commit"] == [commit(a=1)]
    assert stage.counters.commit_failures == 1


def test_e19_stream_sends_no_records_after_it_lost_partitions_while_writing() -> None:
    stage = Stage(StreamIntervalBoundary(60))
    with pytest.raises(StaleMemberError):
        stage.run(stage.assigned(a=0), stage.records(A, 0), stage.told(stage.loop.lost, A))
    stage.loop.revoked([])
    assert stage.log == [("send", 1), ("left",)]


def test_stream_that_lost_partitions_leaves_before_it_awaits_a_commit() -> None:
    """Else the group would give them to a member that takes nothing."""
    stage = Stage()
    stage.delivery.is_held = True
    with pytest.raises(StaleMemberError):
        stage.run(stage.assigned(a=0), stage.records(A, 0), stage.told(stage.loop.lost, A))
    assert stage.log == [("send", 1), commit(a=1), ("left",), ("committed", 1)]


def test_stream_that_loses_partitions_between_transactions_continues() -> None:
    stage = Stage()
    log = stage.run(
        stage.assigned(a=0), stage.records(A, 0), NOTHING, stage.told(stage.loop.lost, A), stage.assigned(b=4),
        stage.records(B, 4),
    )  # fmt: skip
    assert log[2:] == [("committed", 1), "granted", ("send", 1), commit(b=5), ("committed", 1)]


def test_failing_batch_and_its_open_transaction_are_not_committed() -> None:
    stage = Stage(StreamIntervalBoundary(60))

    def failing() -> Fetched:
        stage.task.fails.append(ValueError("poison"))
        return stage.records(A, 1)()

    with pytest.raises(ValueError, match="poison"):
        stage.run(stage.assigned(a=0), stage.records(A, 0), failing)
    stage.loop.revoked([A])
    assert stage.log == [("send", 1)]


def test_stop_during_a_retry_leaves_out_the_current_batch() -> None:
    stage = Stage(StreamIntervalBoundary(60))

    def stopped() -> Fetched:
        stage.task.fails.append(StoppedInRetryError("later"))
        return stage.records(A, 1)()

    assert stage.run(stage.assigned(a=0), stage.records(A, 0), stopped) == [("send", 1), commit(a=1), ("committed", 1)]


def test_start_offsets_and_invisible_ends_are_committed_by_the_clock() -> None:
    stage = Stage(flush_interval_ms=0)
    assert stage.run(stage.assigned(a=0, b=3, fresh=[A]))[:1] == [commit(a=0)]
    stage = Stage(flush_interval_ms=0)
    log = stage.run(stage.assigned(a=5), lambda: Fetched(ends={A: 9, B: 4}))
    assert log == [commit(a=9), ("committed", 1)]


@pytest.mark.parametrize("resets_to", ["latest", "earliest"])
def test_latest_start_offset_is_committed_at_once(resets_to: str) -> None:
    stage = Stage(resets_to=resets_to)
    seen: list[int] = []

    def look() -> Fetched:
        seen.append(len(stage.log))
        return Fetched()

    stage.run(stage.assigned(a=7, b=3, fresh=[A]), look)
    assert seen == [2 if resets_to == "latest" else 0]  # a commit, and that it was made
    assert stage.log[0] == commit(a=7)


def test_no_record_is_processed_before_the_latest_start_offset_is_committed() -> None:
    stage = Stage(resets_to="latest")

    def assigned_with_records() -> Fetched:
        stage.assigned(a=7, fresh=[A])()
        return stage.records(A, 7)()

    log = stage.run(assigned_with_records, stage.records(A, 7))
    assert log[:3] == [("seek", {A: 7}), commit(a=7), ("committed", 1)]
    assert commit(a=8) in log


def test_task_that_starts_paused_commits_its_latest_start_offset() -> None:
    stage = Stage(resets_to="latest")
    stage.control.pause()
    seen: list[bool] = []

    def look() -> Fetched:
        seen.append(commit(a=7) in stage.log)
        return Fetched()

    stage.run(stage.assigned(a=7, fresh=[A]), look)
    assert seen == [True]


def test_struck_producer_is_replaced_if_the_group_has_its_last_commit() -> None:
    stage = Stage()

    def struck() -> Fetched:
        stage.delivery.is_worn = True
        stage.group.positions = {A: 1}
        return stage.records(A, 1)()

    log = stage.run(stage.assigned(a=0), stage.records(A, 0), NOTHING, struck)
    assert (stage.replaced, log[-2]) == (1, commit(a=2))


def test_struck_producer_ends_the_instance_if_the_group_lacks_its_commit() -> None:
    stage = Stage()

    def struck() -> Fetched:
        stage.delivery.is_worn = True
        stage.group.positions = {A: 0}
        return stage.records(A, 1)()

    with pytest.raises(StaleMemberError):
        stage.run(stage.assigned(a=0), stage.records(A, 0), NOTHING, struck)
    assert [entry for entry in stage.log if entry[0] == "commit"] == [commit(a=1)]


def test_paused_task_commits_and_reads_late_records_again_after_the_resume() -> None:
    stage = Stage(StreamIntervalBoundary(60))

    def pausing() -> Fetched:
        stage.control.pause()
        return Fetched()

    def came() -> Fetched:
        assert stage.group.paused == {A}
        stage.control.resume()
        return stage.records(A, 1)()

    log = stage.run(stage.assigned(a=0), stage.records(A, 0), pausing, came)
    assert log == [("send", 1), commit(a=1), ("committed", 1), ("seek", {A: 1})]
    assert stage.states == [RunState.RUNNING, RunState.PAUSED, RunState.RUNNING]  # the first with the first commit


@pytest.mark.parametrize("resets_to", ["earliest", "latest"])
def test_partition_of_a_recreated_topic_is_due_at_any_offset(resets_to: str) -> None:
    """The group has none. With `latest` the new position is committed before its records, as at an assignment."""
    stage = Stage(resets_to=resets_to)

    def created_again() -> Fetched:
        stage.group.starts.restarts = {A: Restart(0, is_cut=False)}
        return fetched((A, 0), (A, 1), (B, 2))

    log = stage.run(stage.assigned(a=2, b=2), created_again, stage.records(A, 2), NOTHING)
    one = ("committed", 1)
    if resets_to == "earliest":
        assert log == [("send", 3), commit(a=2, b=3), one, ("send", 1), commit(a=3), one]
    else:
        assert log == [("seek", {A: 0, B: 2}), commit(a=0), one, ("send", 1), commit(a=3), one]


def test_restart_in_the_poll_of_a_revocation_is_committed() -> None:
    stage = Stage(resets_to="latest")

    def moment() -> Fetched:
        stage.group.starts.restarts = {A: Restart(60, is_cut=False)}
        return stage.told(stage.loop.revoked, A)()

    log = stage.run(stage.assigned(a=2), moment)
    assert [entry for entry in log if entry[0] == "commit"] == [commit(a=60)]


def test_restart_of_a_partition_that_was_taken_away_is_left_to_the_next_member() -> None:
    stage = Stage()
    stage.group.starts.restarts = {B: Restart(0, is_cut=False)}
    assert [entry for entry in stage.run(stage.assigned(a=2), NOTHING, NOTHING) if entry[0] == "commit"] == []


def test_batches_grow_while_they_are_quick_and_are_small_after_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_SHORT_S", float("inf"))
    monkeypatch.setattr(reader, "_LONG_S", float("inf"))
    stage = Stage(most_records=1_500)
    moments = [stage.records(A, start, count) for start, count in ((0, 500), (500, 999), (1_499, 1_000))]
    stage.run(stage.assigned(a=0), *moments, NOTHING)
    assert stage.group.most == [500, 500, 1_000, 1_000, 1_500, 1_500]
    size = stage.loop._step.batches
    size.refused()
    assert size.records == 500


@pytest.mark.parametrize(
    ("most", "took", "expected"),
    [
        (5_000, [(500, 0.06)], 500),  # neither short nor long
        (5_000, [(500, 0.01), (1_000, 0.3)], 500),
        (5_000, [(500, 0.01), (1_000, 0.01), (2_000, 60.0), (1_000, 60.0), (500, 60.0)], 500),
        (5_000, [(500, 0.01)] + [(5_000, 0.01)] * 9, 5_000),
        (20, [(20, 0.01), (20, 60.0)], 20),
    ],
)
def test_size_of_batches_follows_their_time(most: int, took: list[tuple[int, float]], expected: int) -> None:
    size = BatchSize(most)
    for count, time_s in took:
        size.took(count, time_s)
    assert size.records == expected
