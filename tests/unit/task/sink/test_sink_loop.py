"""What the loop of a sink puts and commits, call by call: the group is made up, its members' calls are real."""

import contextlib
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from fencepost.api import FatalError, FencingToken, RetriableError, SinkBatch, SinkTask, TopicPartition
from fencepost.builtin.converter.plain import StringConverter
from fencepost.builtin.transform.chain import Chain
from fencepost.kafka.errors import KafkaRequestError, KafkaUnavailableError
from fencepost.kafka.read.known_positions import Restart
from fencepost.kafka.value.fetched import Fetched
from fencepost.task.channel.message import RunState
from fencepost.task.channel.task_spec import InputSpec, OutputSpec, TaskSpec
from fencepost.task.failure.tolerance import Tolerance
from fencepost.task.sink import commits, reader
from fencepost.task.sink import loop as module
from fencepost.task.sink.context import SinkContext
from fencepost.task.sink.loop import SinkLoop
from fencepost.task.sink.processing import SinkProcessor
from fencepost.task.start.run import SinkCounters, TaskRun
from fencepost.task.tracing.tracing import NO_TRACING
from support.group_stage import A, B, GroupStage, Moment, fetched
from support.noted_tracing import NotedTracing


class Sink(SinkTask):
    """Notes what it is told; `fails` has what its methods raise, once each."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log
        self.fails: dict[str, list[Exception]] = {}
        self.answers: Callable[[dict[TopicPartition, int]], Mapping[TopicPartition, int]] = dict
        self.on_put: Callable[[], None] = lambda: None
        self.on_empty: Callable[[], None] = lambda: None
        self.empties = 0

    def _told(self, what: str, *facts: Any) -> None:
        self.log.append((what, *facts))
        if self.fails.get(what):
            raise self.fails[what].pop(0)

    def open(self, partitions: Any) -> None:
        self._told("open", *partitions)

    def put(self, batch: SinkBatch) -> None:
        if not len(batch):
            self.empties += 1
            self.on_empty()
            return
        self.on_put()
        self._told("put", *[(r.kafka_partition, r.kafka_offset) for r in batch])

    def flush(self, offsets: Any) -> None:
        self._told("flush", dict(offsets))

    def pre_commit(self, offsets: Any) -> Any:
        super().pre_commit(offsets)
        return self.answers(dict(offsets))

    def close(self, partitions: Any) -> None:
        self._told("close", *partitions)


class Letters:
    """Dead letters: `answers` are what `settle` returns, or raises."""

    def __init__(self) -> None:
        self.answers: list[bool | Exception] = []
        self.settled = 0

    def settle(self, timeout_s: float) -> bool:
        self.settled += 1
        answer = self.answers.pop(0) if self.answers else True
        if isinstance(answer, Exception):
            raise answer
        return answer


class Stage(GroupStage):
    def __init__(self, resets_to: str = "earliest", *, is_traced: bool = False) -> None:
        super().__init__()
        self.counters = SinkCounters(state=RunState.RUNNING)
        self.task = Sink(self.log)
        self.context = SinkContext({}, self.control, task_generation=3)
        self.task.initialize(self.context, None)
        spec = TaskSpec(
            "c",
            0,
            1,
            "i",
            {},
            {},
            output=OutputSpec({}, ""),
            input=InputSpec(consumer_conf={"group.id": "g", "auto.offset.reset": resets_to}),
        )
        tolerance = Tolerance(True, 0, 0, False, False, self.control, "c-0", self.counters.errors)
        converter = StringConverter({})
        self.processor = SinkProcessor(Chain(), converter, converter, converter, tolerance)
        self.letters = Letters()
        tracing = NotedTracing(self.log) if is_traced else NO_TRACING
        run = TaskRun(spec, self.control, self.counters, self.states.append, tracing)
        self.loop = SinkLoop(run, self.task, self.context, self.processor, self.letters)

    def then(self, *moments: Moment) -> None:
        self.moments += moments

    def run(self) -> list[Any]:
        self.loop.run(self.group)
        return self.log

    # moments

    def begun(self, begins: Mapping[TopicPartition, int]) -> None:
        self.log.append(("begins", dict(begins)))

    def records(self, *places: tuple[TopicPartition, int], ends: Mapping[TopicPartition, int] | None = None) -> Moment:
        def moment() -> Fetched:
            assert not self.group.paused & {place for place, _ in places}, "fetched of what is paused"
            return fetched(*places, ends=ends)

        return moment

    def revoked(self, *places: TopicPartition) -> Moment:
        return self.taken_back(places, self.loop.revoked)

    def lost(self, *places: TopicPartition) -> Moment:
        return self.taken_back(places, self.loop.lost)

    def commits(self) -> Moment:
        def moment() -> Fetched:
            self.context.request_commit()
            return Fetched()

        return moment

    def nothing(self) -> Fetched:
        return Fetched()


@pytest.fixture
def it(monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr(reader, "pause_after", lambda *_: 0.0)
    return Stage()


def test_revoked_partition_is_flushed_closed_and_then_committed(it: Stage) -> None:
    it.then(it.assigned(a=5), it.records((A, 5), (A, 6)), it.revoked(A))
    assert it.run() == [
        ("open", A),
        ("begins", {}),
        ("put", (0, 5), (0, 6)),
        ("flush", {A: 7}),
        ("close", A),
        ("commit", {A: 7}),
    ]


def test_offsets_of_records_that_put_refused_are_not_committed(it: Stage) -> None:
    it.then(it.assigned(a=0), it.records((A, 0)), it.records((A, 1)))
    it.task.fails["put"] = []
    puts = iter([None, FatalError("full")])

    def on_put() -> None:
        error = next(puts)
        if error is not None:
            raise error

    it.task.on_put = on_put
    with pytest.raises(FatalError, match="full"):
        it.run()
    assert [entry for entry in it.log if entry[0] in ("commit", "flush")] == [("flush", {A: 1}), ("commit", {A: 1})]


def test_failed_flush_commits_no_offset_and_its_records_are_read_again(it: Stage) -> None:
    it.then(it.assigned(a=3), it.records((A, 3)), it.commits(), it.nothing, it.records((A, 3)))
    it.task.fails["flush"] = [OSError("disk full")]
    assert it.run()[2:] == [
        ("put", (0, 3)),
        ("flush", {A: 4}),
        ("seek", {A: 3}),
        ("put", (0, 3)),
        ("flush", {A: 4}),
        ("close", A),
        ("commit", {A: 4}),
    ]
    assert it.counters.commit_failures == 1


def test_records_of_a_truncated_log_are_read_again_when_the_flush_fails(it: Stage) -> None:
    """They are below what is safe of the other log, and of one whose topic was created again."""
    it.group.positions = {A: 9}
    it.then(it.assigned(a=9), it.records((A, 3), (A, 4)), it.commits())
    it.task.fails["flush"] = [OSError("disk full")]
    assert ("seek", {A: 3}) in it.run()


def restarted(then: Fetched, at: int, *, is_cut: bool, stage: Stage) -> Moment:
    """Return a poll in which reading goes on elsewhere in partition A."""

    def moment() -> Fetched:
        stage.group.starts.restarts[A] = Restart(at, is_cut)
        return then

    return moment


@pytest.mark.parametrize("at", [0, 2, 7])
def test_end_to_which_a_log_is_reset_is_committed_before_its_records_are_put(at: int) -> None:
    """With `latest`: a successor would begin at a later end. A task that keeps offsets of its own is told, too."""
    it = Stage("latest")
    came = it.records((A, at), (B, 3))
    it.then(it.assigned(a=1, b=3), it.records((A, 1)), restarted(came(), at, is_cut=False, stage=it), came)
    assert it.run()[2:] == [
        ("put", (0, 1)),
        ("seek", {A: at, B: 3}),
        ("flush", {A: at, B: 3}),
        ("commit", {A: at}),
        ("put", (0, at), (1, 3)),
        ("flush", {A: at + 1, B: 4}),
        ("close", A, B),
        ("commit", {A: at + 1, B: 4}),
    ]


@pytest.mark.parametrize("answered", [{A: 5}, {}], ids=["allowed", "left out"])
def test_refused_commit_of_the_end_to_which_a_log_is_reset_is_tried_again(answered: dict[TopicPartition, int]) -> None:
    it = Stage("latest")
    it.task.answers = lambda _: answered
    came = it.records((A, 5))
    it.then(it.assigned(a=1), restarted(Fetched(), 5, is_cut=False, stage=it), came, came, came)
    it.group.refuses = [KafkaUnavailableError("away")] * 2
    log = [entry for entry in it.run() if entry[0] in ("commit", "put")]
    assert log[:4] == [("commit", {A: 5})] * 3 + [("put", (0, 5))]


def test_nothing_is_put_after_a_reset_while_the_flush_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "_SOON_S", 0.0)
    it = Stage("latest")
    it.task.fails["flush"] = [OSError("disk full")] * 2
    came = it.records((A, 5))
    it.then(it.assigned(a=1), restarted(Fetched(), 5, is_cut=False, stage=it), came, came, came)
    log = [entry for entry in it.run() if entry[0] in ("flush", "commit", "put")]
    assert log[:5] == [("flush", {A: 5})] * 3 + [("commit", {A: 5}), ("put", (0, 5))]


def test_partition_of_a_recreated_topic_with_the_same_end_is_committed(it: Stage) -> None:
    it.then(it.assigned(a=2), restarted(fetched((A, 0), (A, 1)), 0, is_cut=False, stage=it))
    assert it.run()[-1] == ("commit", {A: 2})


@pytest.mark.parametrize("resets_to", ["earliest", "latest"])
def test_records_that_a_cut_has_left_are_put_again_if_their_flush_fails(resets_to: str) -> None:
    """They are not committed before they are flushed either."""
    it = Stage(resets_to)
    it.then(it.assigned(a=1), it.records((A, 1), (A, 2), (A, 3)), restarted(fetched((A, 3)), 3, is_cut=True, stage=it))
    it.then(it.commits(), it.nothing)
    it.task.fails["flush"] = [OSError("disk full")]
    assert it.run()[2:] == [
        ("put", (0, 1), (0, 2), (0, 3)),
        ("put", (0, 3)),
        ("flush", {A: 4}),
        ("seek", {A: 1}),
        ("flush", {A: 1}),
        ("close", A),
        ("commit", {A: 1}),
    ]


def test_end_to_which_a_log_is_reset_is_committed_without_records() -> None:
    it = Stage()
    it.then(it.assigned(a=2, b=2), restarted(Fetched(), 0, is_cut=False, stage=it))
    it.group.starts.restarts[B] = Restart(1, is_cut=True)
    assert it.run()[-1] == ("commit", {A: 0, B: 1})
    assert it.context.take_resets() == {A}


def test_log_that_was_reset_is_committed_and_read_where_it_has_records_at_least() -> None:
    """A task that buffers answers an offset from before."""
    it = Stage("latest")
    it.task.answers = lambda _: {A: 2}
    it.then(it.assigned(a=1), it.records((A, 1)), restarted(Fetched(), 7, is_cut=False, stage=it), it.commits())

    def refuse() -> Fetched:
        it.task.fails["flush"] = [OSError("disk full")]
        return it.commits()()

    it.then(it.records((A, 7), (A, 8)), refuse, it.nothing)
    log = it.run()
    assert {entry[1][A] for entry in log if entry[0] == "commit"} == {7}
    assert [entry for entry in log if entry[0] == "seek"] == [("seek", {A: 7})]


def test_offset_is_committed_from_before_a_reset_if_the_task_reads_that_again() -> None:
    it = Stage()

    def rewind() -> Fetched:
        it.context.seek({A: 3})
        return Fetched()

    it.then(it.assigned(a=1), restarted(fetched((A, 7)), 7, is_cut=False, stage=it), rewind, it.records((A, 3), (A, 4)))
    it.task.answers = lambda _: {A: 4}
    assert it.run()[-1] == ("commit", {A: 4})


@pytest.mark.parametrize("is_cut", [True, False])
def test_rewind_in_the_poll_of_a_restart_is_committed(it: Stage, is_cut: bool) -> None:
    """A task that is told to flush another partition wants to read from before the cut."""

    def answers(offsets: dict[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        if B in offsets:
            it.context.seek({A: 3})
        return offsets

    def moment() -> Fetched:
        it.task.answers = answers
        came = it.revoked(B)()
        it.group.starts.restarts[A] = Restart(5, is_cut)
        return came

    it.then(it.assigned(a=2, b=0), it.records(*((A, offset) for offset in range(2, 7))), moment)
    assert it.run()[-1] == ("commit", {A: 3})


def test_restart_in_the_poll_of_a_revocation_is_committed() -> None:
    it = Stage("latest")

    def moment() -> Fetched:
        it.group.starts.restarts[A] = Restart(60, is_cut=False)
        return it.revoked(A)()

    it.then(it.assigned(a=1), it.records((A, 1)), moment)
    assert it.run()[-1] == ("commit", {A: 60})


def test_failed_flush_does_not_rewind_partitions_without_taken_records(it: Stage) -> None:
    """The log of `a` was cut: it is read from before the group's offset, though no record has come from there yet."""
    it.then(it.assigned(a=9, b=0), it.records((B, 0)), it.commits())
    it.task.fails["flush"] = [OSError("disk full")]
    assert [entry for entry in it.run() if entry[0] == "seek"] == [("seek", {B: 0})]


def test_offset_is_committed_even_if_equal_to_one_of_the_old_topic(it: Stage) -> None:
    """As of a topic that was created again, and has as many records as before."""
    it.then(it.assigned(a=2), it.records((A, 0), (A, 1)), it.commits(), it.commits())
    assert [entry for entry in it.run() if entry[0] == "commit"] == [("commit", {A: 2})]


@pytest.mark.parametrize("begins", [1, 3])
@pytest.mark.parametrize("error", [FatalError("full"), RetriableError("busy")])
def test_no_offset_passes_refused_records_of_a_truncated_log(it: Stage, error: Exception, begins: int) -> None:
    """The next start would read on after them."""

    def cut() -> Fetched:
        it.task.fails["put"] = [error]
        it.context.request_commit()
        return fetched((A, begins))

    it.then(it.assigned(a=2), it.records((A, 2), (A, 3), (A, 4)), cut)
    with contextlib.suppress(FatalError):
        it.run()
    assert next(entry for entry in it.log if entry[0] == "commit") == ("commit", {A: begins})


def test_failed_flush_does_not_rewind_past_offsets_committed_by_the_task(it: Stage) -> None:
    """As a task with transactions of its own does."""

    def commits_by_itself() -> Fetched:
        it.group.positions = {A: 5, B: 0}
        return it.commits()()

    it.then(it.assigned(a=3, b=0), it.records((A, 3), (A, 4), (A, 5), (B, 0)), commits_by_itself)
    it.task.fails["flush"] = [OSError("disk full")]
    assert ("seek", {A: 5, B: 0}) in it.run()


def test_failed_flush_rewinds_to_safe_offsets_if_the_groups_are_unreadable(
    it: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: Any) -> Any:
        raise RetriableError("no coordinator")

    monkeypatch.setattr(it.group, "stored", away)
    it.then(it.assigned(a=3), it.records((A, 3)), it.commits())
    it.task.fails["flush"] = [OSError("disk full")]
    assert ("seek", {A: 3}) in it.run()


def test_failed_flush_at_the_end_commits_no_offsets(it: Stage) -> None:
    it.then(it.assigned(a=3), it.records((A, 3)))
    it.task.fails["flush"] = [OSError("disk full")]
    assert it.run()[-2:] == [("flush", {A: 4}), ("close", A)]


def test_refused_batch_is_put_again_whole_while_fetching_is_paused(it: Stage) -> None:
    it.then(it.assigned(a=0, b=0), it.records((A, 0), (B, 0)), it.commits(), it.nothing, it.records((A, 1)))
    it.task.fails["put"] = [RetriableError("away"), RetriableError("away")]
    paused: list[set[TopicPartition]] = []
    it.task.on_put = lambda: paused.append(set(it.group.paused))
    log = it.run()
    assert paused == [set(), set(), {A, B}, set()]  # the first retry is at once, and the second behind a poll
    assert [entry for entry in log if entry[0] == "put"] == [("put", (0, 0), (1, 0))] * 3 + [("put", (0, 1))]
    commits = [entry for entry in log if entry[0] == "commit"]
    assert commits == [("commit", {A: 2, B: 1})]
    assert it.counters.errors.retries == 2


def test_batches_grow_while_they_are_quick_and_are_small_after_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sink, "most_records", 5_000)
    monkeypatch.setattr(reader, "pause_after", lambda *_: 0.0)
    it = Stage()
    monkeypatch.setattr(reader, "_SHORT_S", float("inf"))
    monkeypatch.setattr(reader, "_LONG_S", float("inf"))
    offsets = [range(500), range(500, 1_499), range(1_499, 2_499), range(2_499, 2_500)]
    batches = [it.records(*((A, offset) for offset in each)) for each in offsets]

    def refuse() -> Fetched:
        it.task.fails["put"] = [RetriableError("away")]
        return batches[3]()

    it.then(it.assigned(a=0), *batches[:3], refuse, it.nothing)
    it.run()
    assert it.group.most[1:6] == [500, 1_000, 1_000, 2_000, 500]


def test_sink_gets_at_most_kafkas_default_unless_it_asks_for_more(it: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its store may refuse more at once, and a refused batch is put again as it is."""
    monkeypatch.setattr(reader, "_SHORT_S", float("inf"))
    it.then(it.assigned(a=0), it.records(*((A, offset) for offset in range(500))), it.nothing)
    it.run()
    assert set(it.group.most) == {500}


def test_refused_batch_is_shown_until_it_is_put(it: Stage) -> None:
    seen: list[str | None] = []
    it.then(it.assigned(a=0), it.records((A, 0)), it.nothing, it.nothing)
    it.task.fails["put"] = [RetriableError("the store is away")]
    it.task.on_put = lambda: seen.append(it.counters.errors.retried.text)
    it.run()
    assert [(text or "").partition("\n")[0] for text in seen[:2]] == ["", "the store is away"]
    assert it.counters.errors.retried.text is None


def test_flush_that_fails_is_shown_until_one_succeeds(it: Stage) -> None:
    seen: list[str | None] = []

    def look() -> Fetched:
        seen.append(it.counters.errors.retried.text)
        return Fetched()

    it.then(it.assigned(a=3), it.records((A, 3)), it.commits(), look, it.commits(), look)
    it.task.fails["flush"] = [OSError("disk full")]
    it.run()
    assert [(text or "").partition("\n")[0] for text in seen] == ["disk full", ""]


def test_refused_records_of_a_revoked_partition_are_not_put_again(it: Stage) -> None:
    it.then(it.assigned(a=0, b=0), it.records((A, 0), (B, 0)), it.revoked(A), it.nothing)
    it.task.fails["put"] = [RetriableError("away")] * 2
    log = it.run()
    after = log[log.index(("close", A)) :]
    assert [entry for entry in after if entry[0] == "put"] == [("put", (1, 0))]
    assert ("commit", {A: 1}) not in log
    assert after[-2:] == [("close", B), ("commit", {B: 1})]
    assert it.group.paused == set()


def test_partition_is_not_committed_when_its_close_fails_and_others_continue(it: Stage) -> None:
    it.then(it.assigned(a=0, b=0), it.records((A, 0), (B, 0)), it.revoked(A), it.records((B, 1)))
    it.task.fails["close"] = [RetriableError("a report was refused")]
    assert [entry for entry in it.run() if entry[0] in ("put", "commit")][1:] == [("put", (1, 1)), ("commit", {B: 2})]
    assert it.counters.commit_failures == 1


def test_failed_close_of_lost_partitions_does_not_end_the_task(it: Stage) -> None:
    it.then(it.assigned(a=0, b=0), it.records((A, 0)), it.lost(A), it.records((B, 0)))
    it.task.fails["close"] = [RetriableError("a report was refused")]
    assert [entry for entry in it.run() if entry[0] == "commit"] == [("commit", {B: 1})]


def test_failed_close_does_not_hide_why_the_task_fails(it: Stage) -> None:
    it.then(it.assigned(a=0), it.records((A, 0)))
    it.task.fails = {"put": [FatalError("full")], "close": [RetriableError("a report was refused")]}
    with pytest.raises(FatalError, match="full"):
        it.run()


def test_no_offset_passes_an_unsafe_dead_letter_of_a_close(it: Stage) -> None:
    it.then(it.assigned(a=0), it.records((A, 0)))
    it.letters.answers = [True, False]  # before the flush, and after the close
    assert it.run()[-2:] == [("flush", {A: 1}), ("close", A)]


def test_lost_partitions_are_closed_without_a_flush_or_a_commit(it: Stage) -> None:
    it.then(it.assigned(a=0), it.records((A, 0)), it.lost(A))
    assert it.run()[-2:] == [("put", (0, 0)), ("close", A)]


def test_offsets_of_a_refused_commit_are_committed_next_time(it: Stage) -> None:
    it.then(it.assigned(a=0), it.records((A, 0)), it.commits(), it.nothing)
    it.group.refuses = [KafkaRequestError("a rebalance is under way", 27)]
    assert [entry for entry in it.run() if entry[0] == "commit"] == [("commit", {A: 1})] * 2
    assert (it.counters.commit_failures, it.counters.commits) == (1, 1)


def test_pre_commit_may_hold_offsets_back_but_not_advance_them(it: Stage, caplog: pytest.LogCaptureFixture) -> None:
    it.then(it.assigned(a=0, b=0), it.records((A, 0), (A, 1), (B, 0)))
    elsewhere = TopicPartition("other", 0)
    it.task.answers = lambda offsets: {A: 1, B: 2, elsewhere: 7}
    assert [entry for entry in it.run() if entry[0] == "commit"] == [("commit", {A: 1})]
    assert sum("ignoring" in message for message in caplog.messages) == 2


def test_task_that_seeks_in_open_begins_at_its_offset(it: Stage) -> None:
    def open_(partitions: Any) -> None:
        it.context.seek({A: 40})

    it.task.open = open_  # type: ignore[method-assign]
    it.then(it.assigned(a=5), it.records((A, 40)))
    assert it.run() == [
        ("begins", {A: 40}),
        ("put", (0, 40)),
        ("flush", {A: 41}),
        ("close", A),
        ("commit", {A: 41}),
    ]


def test_rewind_in_put_is_read_again_and_committed(it: Stage) -> None:
    it.then(it.assigned(a=5), it.records((A, 5), (A, 6)), it.nothing)
    it.task.on_put = lambda: it.context.offset({A: 2})
    assert it.run()[2:] == [
        ("put", (0, 5), (0, 6)),
        ("seek", {A: 2}),
        ("flush", {A: 2}),
        ("close", A),
        ("commit", {A: 2}),
    ]


def test_lag_is_the_largest_lag_of_any_partition(it: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    clock_s = itertools.count(1.0)
    monkeypatch.setattr("time.monotonic", lambda: next(clock_s))
    seen: list[tuple[int, int]] = []
    look = lambda: seen.append((it.counters.partition_count, it.counters.lag_max)) or Fetched()  # noqa: E731
    it.then(it.assigned(a=40, b=70), look, it.records((A, 40), (A, 41)), look)
    it.run()
    assert seen == [(2, 60), (2, 58)]


def test_rewind_in_pre_commit_is_committed(it: Stage) -> None:
    """The default returns all that it was given, also where the flush has asked for records again."""
    it.then(it.assigned(a=5), it.records((A, 5), (A, 6)), it.commits(), it.nothing, it.records((A, 5)), it.commits())
    rewinds = [{A: 5}]

    def answers(offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        if rewinds:
            it.context.offset(rewinds.pop())
            it.task.fails["flush"] = [OSError("disk full")]  # of the next commit
        return offsets

    it.task.answers = answers
    log = it.run()
    assert [entry for entry in log if entry[0] in ("commit", "seek")] == [
        ("seek", {A: 5}),
        ("seek", {A: 5}),  # back to what is safe, and not to what was taken before
    ]


def test_rewind_in_the_last_commit_does_not_affect_the_next_assignment(it: Stage) -> None:
    it.then(it.assigned(a=50), it.records((A, 50)), it.revoked(A), it.assigned(a=50), it.records((A, 50)))
    asked = [{A: 40}]

    def answers(offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        it.context.offset(asked.pop() if asked else {})
        return offsets

    it.task.answers = answers
    log = it.run()
    assert [entry for entry in log if entry[0] == "begins"] == [("begins", {})] * 2
    assert [entry for entry in log if entry[0] == "commit"] == [("commit", {A: 40}), ("commit", {A: 51})]


def test_rewind_of_a_kept_partition_survives_another_assignment(it: Stage) -> None:
    def ask() -> Fetched:
        it.context.offset({A: 3})
        return it.assigned(b=0)()

    it.then(it.assigned(a=5), ask, it.nothing)
    assert ("seek", {A: 3}) in it.run()


def test_rewind_in_close_takes_effect_before_fetched_records_are_put(it: Stage) -> None:
    def close(partitions: Any) -> None:
        it.context.offset({A: 3})

    def taken_back() -> Fetched:
        it.revoked(B)()
        return fetched((A, 9))  # fetched before the rewind

    it.task.close = close  # type: ignore[method-assign]
    it.then(it.assigned(a=5, b=0), taken_back, it.records((A, 3)))
    log = it.run()
    assert [entry for entry in log if entry[0] in ("put", "seek")][:2] == [("seek", {A: 3}), ("put", (0, 3))]
    assert [entry for entry in log if entry[0] == "commit"] == [("commit", {A: 4})]


def test_no_offset_is_committed_when_both_flush_and_seek_fail(it: Stage) -> None:
    it.then(it.assigned(a=3), it.records((A, 3)), it.commits(), it.nothing)
    it.task.fails["flush"] = [OSError("disk full")]
    it.group.cannot_seek = [KafkaRequestError("the topic is gone", 3)]
    with pytest.raises(KafkaRequestError):
        it.run()
    assert [entry for entry in it.log if entry[0] == "commit"] == []


def test_records_fetched_while_a_batch_is_refused_are_read_again_later(it: Stage) -> None:
    """A partition that is assigned within a poll is not paused yet."""
    it.then(it.assigned(a=0), it.records((A, 0), (A, 1)), it.assigned(it.records((B, 7), (B, 8)), b=7), it.nothing)
    it.task.fails["put"] = [RetriableError("away")] * 2
    log = it.run()
    assert ("seek", {B: 7}) in log
    assert [entry for entry in log if entry[0] == "put"] == [("put", (0, 0), (0, 1))] * 3
    assert [entry for entry in log if entry[0] == "commit"] == [("commit", {A: 2})]


def test_paused_task_puts_no_records_of_newly_assigned_partitions(it: Stage) -> None:
    def pause() -> Fetched:
        it.control.pause()
        return Fetched()

    it.then(it.assigned(a=0), pause, it.assigned(it.records((B, 7)), b=7), it.nothing)
    log = it.run()
    assert [entry for entry in log if entry[0] == "put"] == []
    assert ("seek", {B: 7}) in log


def test_start_offset_of_a_new_group_is_committed_without_records(it: Stage) -> None:
    """With `auto.offset.reset=latest` the next member would begin behind what came meanwhile."""
    it.then(it.assigned(a=10, b=4, fresh=[A]))
    assert [entry for entry in it.run() if entry[0] == "commit"] == [("commit", {A: 10})]


def test_latest_start_offset_of_a_new_group_is_committed_before_any_put() -> None:
    """Also where the task itself lets nothing be committed: the end is not what it has written."""
    it = Stage("latest")
    it.task.answers = lambda offsets: {}

    def assigned_with_records() -> Fetched:
        it.assigned(a=10, b=4, fresh=[A])()
        return it.records((A, 10))()

    it.then(assigned_with_records, it.records((A, 11)))
    log = [entry for entry in it.run() if entry[0] in ("commit", "put")]
    assert log == [("commit", {A: 10}), ("put", (0, 10)), ("put", (0, 11))]


def test_task_that_starts_paused_commits_its_latest_start_offset() -> None:
    it = Stage("latest")
    it.control.pause()
    seen: list[bool] = []

    def look() -> Fetched:
        seen.append(("commit", {A: 10}) in it.log)
        return Fetched()

    it.then(it.assigned(a=10, fresh=[A]), look)
    it.run()
    assert seen == [True]


def test_records_are_not_put_until_the_latest_start_offset_is_committed() -> None:
    it = Stage("latest")
    it.group.refuses = [KafkaUnavailableError("no coordinator")]

    def assigned_with_records() -> Fetched:
        it.assigned(a=10, fresh=[A])()
        return it.records((A, 10))()

    it.then(assigned_with_records, it.records((A, 10)))
    log = [entry for entry in it.run() if entry[0] in ("commit", "put", "seek")]
    assert log[:4] == [("commit", {A: 10}), ("seek", {A: 10}), ("commit", {A: 10}), ("put", (0, 10))]


def test_deleted_partition_does_not_block_commits_of_other_partitions(it: Stage) -> None:
    it.then(it.assigned(a=0, b=0), it.records((A, 0), (B, 0)), it.commits(), it.nothing, it.commits(), it.nothing)
    it.group.gone = {B}
    log = it.run()
    commits = [entry[1] for entry in log if entry[0] == "commit"]
    assert commits == [{A: 1, B: 1}, {B: 1}, {B: 1}]
    assert it.counters.commit_failures == 0


def test_pause_keeps_the_membership_and_fetches_no_records(it: Stage) -> None:
    def pause() -> Fetched:
        it.control.pause()
        return Fetched()

    def resume() -> Fetched:
        assert it.group.paused == {A}
        it.control.resume()
        return Fetched()

    it.then(it.assigned(a=0), pause, resume, it.records((A, 0)))
    assert ("put", (0, 0)) in it.run()
    assert it.states == [RunState.PAUSED, RunState.RUNNING, RunState.RUNNING]  # the last with the first commit
    assert it.group.paused == set()


def test_a_task_may_pause_a_partition_of_its_own(it: Stage) -> None:
    def pause() -> Fetched:
        it.context.pause(A)
        return Fetched()

    def look() -> Fetched:
        assert it.group.paused == {A}
        it.context.resume(A)
        return Fetched()

    it.then(it.assigned(a=0, b=0), pause, look, it.records((A, 0)))
    it.run()


def test_markers_of_transactions_at_the_end_of_a_log_count_as_read(it: Stage) -> None:
    it.then(it.assigned(a=0, b=0), it.records((A, 0), ends={A: 2}), it.records(ends={B: 9}))
    assert [entry for entry in it.run() if entry[0] == "commit"] == [("commit", {A: 2, B: 9})]


def test_the_end_of_a_log_is_not_reached_while_its_records_are_refused(it: Stage) -> None:
    it.then(it.assigned(a=0), it.records((A, 0)), it.records(ends={A: 5}))
    it.task.fails["put"] = [RetriableError("away")] * 9
    assert [entry for entry in it.run() if entry[0] == "commit"] == []


def test_unreadable_record_is_passed_if_tolerated(it: Stage) -> None:
    class Refusing(StringConverter):
        def to_column(self, column: Any) -> Any:
            return None

        def to_connect_data(self, topic: str, data: bytes | None) -> Any:
            if data == b"v":
                raise ValueError("not readable")
            return super().to_connect_data(topic, data)

    it.processor.value_converter = Refusing({})
    it.then(it.assigned(a=0), it.records((A, 0)))
    assert it.run()[2:] == [("flush", {A: 1}), ("close", A), ("commit", {A: 1})]
    assert it.counters.errors.skipped == 1


def test_no_offset_passes_an_unsafe_dead_letter(it: Stage) -> None:
    it.then(it.assigned(a=0), it.records((A, 0)), it.commits(), it.nothing, it.records((A, 1)))
    it.letters.answers = [False]
    assert [entry for entry in it.run() if entry[0] == "commit"] == [("commit", {A: 2})]


def test_refused_dead_letter_restarts_the_task_without_a_commit(it: Stage) -> None:
    it.then(it.assigned(a=0), it.records((A, 0)), it.commits(), it.nothing, it.records((A, 1)))
    it.letters.answers = [RetriableError("refused")] * 3
    with pytest.raises(RetriableError):
        it.run()
    assert [entry for entry in it.log if entry[0] in ("commit", "close")] == [("close", A)]


def test_fatal_refusal_of_a_dead_letter_in_a_revocation_fails_the_task(it: Stage) -> None:
    """Of the partitions that stay, too: the letter may be of one of their records."""
    it.letters.answers = [FatalError("too large")] * 9
    it.then(it.assigned(a=0, b=0), it.records((A, 0), (B, 0)), it.revoked(A), it.records((B, 1)))
    with pytest.raises(FatalError, match="too large"):
        it.run()
    assert [entry for entry in it.log if entry[0] in ("commit", "close", "put")] == [
        ("put", (0, 0), (1, 0)),
        ("close", A),
        ("close", B),
    ]


@pytest.mark.parametrize("fails", [[], [ValueError("its own")]], ids=["stopped", "failed"])
def test_fatal_refusal_of_a_dead_letter_at_the_end_fails_a_healthy_task(it: Stage, fails: list[Exception]) -> None:
    it.letters.answers = [FatalError("too large")] * 9
    it.task.fails["put"] = list(fails)
    it.then(it.assigned(a=0), it.records((A, 0)))
    with pytest.raises(type(fails[0]) if fails else FatalError):
        it.run()
    assert [entry for entry in it.log if entry[0] in ("commit", "close")] == [("close", A)]


def test_retriable_refusal_of_a_dead_letter_in_a_revocation_only_holds_offsets(it: Stage) -> None:
    it.letters.answers = [RetriableError("no leader")]
    it.then(it.assigned(a=0, b=0), it.records((A, 0), (B, 0)), it.revoked(A), it.records((B, 1)))
    assert [entry for entry in it.run() if entry[0] == "commit"] == [("commit", {B: 2})]


def test_flush_waits_for_safe_dead_letters_when_the_store_keeps_offsets(it: Stage) -> None:
    it.then(it.assigned(a=0), it.records((A, 0)), it.commits(), it.nothing)
    it.task.answers = lambda offsets: {}
    it.letters.answers = [False, False]
    assert [entry for entry in it.run() if entry[0] == "flush"] == []


def test_dead_letter_of_the_failing_record_is_awaited(it: Stage) -> None:
    it.then(it.assigned(a=0), it.records((A, 0)))
    it.task.fails["put"] = [FatalError("not tolerated")]
    with pytest.raises(FatalError):
        it.run()
    assert it.letters.settled


def test_rewind_of_an_unassigned_partition_is_dropped(it: Stage) -> None:
    def open_(partitions: Any) -> None:
        it.context.offset({B: 7} if list(partitions) == [A] else {})

    it.task.open = open_  # type: ignore[method-assign]
    it.then(it.assigned(a=5), it.nothing, it.assigned(b=5000))
    assert [entry for entry in it.run() if entry[0] == "begins"] == [("begins", {})] * 2


def test_reported_record_has_the_bytes_that_were_read(it: Stage) -> None:
    it.then(it.assigned(a=0), it.records((A, 0)))
    raw: list[Any] = []
    put = it.task.put
    it.task.put = lambda batch: (raw.extend(map(it.processor.raw_of, batch)), put(batch))[1]  # type: ignore[method-assign]
    it.run()
    assert [(r.value, r.kafka_offset, r.at) for r in raw] == [(b"v", 0, A)]


def test_abandoned_task_neither_flushes_nor_commits(it: Stage) -> None:
    it.then(it.assigned(a=0), it.records((A, 0)))
    it.task.on_put = lambda: setattr(it.loop, "is_abandoned", True)
    assert it.run()[2:] == [("put", (0, 0)), ("close", A)]


def test_put_is_called_without_records_after_open_and_once_an_interval(
    it: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    seen: list[int] = []

    def later(by_s: float) -> Moment:
        def moment() -> Fetched:
            nonlocal now
            seen.append(it.task.empties)
            now += by_s
            return Fetched()

        return moment

    it.then(it.nothing, it.assigned(a=0), later(1), later(58.8), later(0.3), later(0), later(0))
    it.run()
    assert seen == [1, 1, 1, 2, 2]  # at 0 s, and 60 s later


def test_put_is_called_without_records_when_the_task_requests_it(it: Stage) -> None:
    it.then(it.assigned(a=0), it.records((A, 0)), it.nothing, it.nothing)
    it.task.on_put = lambda: it.context.timeout(0)
    it.run()
    assert it.task.empties == 2  # behind the open, and once behind the records


def test_put_is_not_called_without_records_while_paused_or_refusing(it: Stage) -> None:
    def pause() -> Fetched:
        it.control.pause()
        return Fetched()

    it.then(it.assigned(it.records((A, 0)), a=0), it.nothing, it.nothing, it.nothing)
    it.task.on_put = lambda: it.context.timeout(0)
    it.task.fails["put"] = [RetriableError("away")] * 9
    it.run()
    assert it.task.empties == 0
    paused = Stage()
    paused.control.pause()
    paused.then(paused.assigned(a=0), paused.nothing)
    paused.run()
    assert paused.task.empties == 0


def test_group_is_not_polled_in_a_busy_loop_while_idle(it: Stage) -> None:
    def pause() -> Fetched:
        it.control.pause()
        return Fetched()

    it.then(it.nothing, it.nothing, it.assigned(pause, a=0), it.nothing, it.nothing, it.revoked(A), it.nothing)
    it.run()
    assert min(it.group.waits_s) == 0.1


def test_refused_put_without_records_is_called_again(it: Stage) -> None:
    def refuse_once() -> None:
        if it.task.empties == 1:
            raise RetriableError("away")

    it.task.on_empty = refuse_once
    it.then(it.assigned(a=0), it.nothing, it.records((A, 0)))
    log = it.run()
    assert it.task.empties == 2
    assert ("put", (0, 0)) in log
    assert it.counters.errors.retries == 1


def test_fencing_token_has_the_generations_of_task_and_group() -> None:
    stage = Stage()
    assert stage.context.fencing_token is None
    stage.context.reading = stage.group
    assert stage.context.fencing_token == FencingToken(3, 7)
    assert (3, 6) < FencingToken(3, 7) < (4, 1)
    stage.group.generation = None
    assert stage.context.fencing_token is None


def test_tracing_covers_batches_steps_and_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "pause_after", lambda *_: 0.0)
    it = Stage(is_traced=True)
    it.task.fails["put"] = [RetriableError("away")]
    it.group.refuses = [KafkaUnavailableError("away")]
    it.then(it.assigned(a=5), it.records((A, 5)), it.nothing, it.commits(), it.nothing, it.commits(), it.nothing)
    told = [each for each in it.run() if isinstance(each, str)]
    batch = ["batch of 1 begins", "convert begins", "convert ends", "put begins", "refused: RetriableError"]
    assert told[:9] == [*batch, "put ends", "batch of 1 ends", "again begins", "again ends"]
    commits = ["commit begins", "commit fails: KafkaUnavailableError", "commit begins", "commit ends"]
    assert [each for each in told[9:] if "put" not in each] == [*commits, "over"]
