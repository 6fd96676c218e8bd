"""The task of a Java sink, between the real loop of a sink and a host that takes notes.

The heart of it: no offset is committed that Java's preCommit does not cover, nor one past a record whose dead letter is
not safe.
"""

import gc
import threading
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fencepost.api import ConnectError, FatalError, RetriableError, SinkRecord
from fencepost.builtin.converter.plain import ByteArrayConverter
from fencepost.builtin.java import sink_task
from fencepost.builtin.java.error import HostEndedError, JavaError
from fencepost.builtin.java.port import Effects, Errant, Failure, GroupMember, Processing, PutEffects
from fencepost.hook.hosted_task import HostLostError
from fencepost.kafka.value.fetched import Fetched
from fencepost.plugin import PluginKind
from fencepost.record import Header, SinkBatch, TopicPartition
from fencepost.task.conversion.plugins import conversion_of
from fencepost.task.failure.dead_letter import context_headers, origin_of
from fencepost.task.sink import reader
from fencepost.testing import eventually
from support.group_stage import A, B, Moment, fetched
from support.java_sink_stage import AWAY, TABLE, THROWN, Stage, errant, membership, records
from support.scripted_plugins import used


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "pause_after", lambda *_: 0.0)


def test_the_task_gets_its_configs_and_its_classes(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.run()
    (start,) = stage.java.sink_starts
    assert (start.connector, start.task, start.java_class.name) == ("table", 0, "org.example.TableTask")
    assert start.java_class.location == stage.plugins.find(PluginKind.CONNECTOR, TABLE).java.location
    assert start.connector_config["value.converter"] == "JsonConverter"
    assert start.classes["JsonConverter"].name == "org.apache.kafka.connect.json.JsonConverter"
    assert start.has_reporter


def test_a_task_without_log_and_dead_letters_has_no_reporter(tmp_path: Path) -> None:
    stage = Stage(tmp_path, reports=False)
    stage.run()
    assert not stage.java.sink_starts[0].has_reporter


def test_records_of_a_java_sink_are_not_converted_in_python(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    transforms = {"transforms": "hoist", "transforms.hoist.type": "HoistField$Value", "transforms.hoist.field": "n"}
    spec = replace(stage.spec, connector_config={**stage.spec.connector_config, **transforms})
    with used(stage.plugins):
        chain, *converters, _ = conversion_of(spec, stage.control, stage.counters.errors)
    assert [type(each) for each in converters] == [ByteArrayConverter] * 3
    assert chain.links == ()


def test_bytes_are_put_and_committed_as_far_as_java_allows(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    def less() -> PutEffects:
        stage.sink.allowed = lambda offsets: {place: offset - 1 for place, offset in offsets.items()}
        return PutEffects()

    stage.java.script = [less]
    assert stage.run(stage.assigned(a=5), records((A, 5), (A, 6)), stage.commits) == [
        ("open", A),
        ("put", 5, 6),
        ("pre_commit", {A: 7}),
        ("commit", {A: 6}),
        ("pre_commit", {A: 7}),
        ("close", A),
        ("stop",),
    ]
    assert list(stage.sink.batches[0].values) == [b"v", b"v"]


def test_records_for_the_next_put_are_read_ahead_during_a_put(tmp_path: Path) -> None:
    stage = Stage(tmp_path, most_records=1)
    stage.run(stage.assigned(a=0), records((A, 0)), records((A, 1)), records((A, 2), (A, 3)))
    assert stage.group.ahead == [1, 2, 2]  # as many as the next put may be given


def test_java_gets_a_new_group_generation_before_the_next_put(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    def rejoined() -> Fetched:
        stage.group.metadata, stage.group.generation = membership(8), 8  # type: ignore[assignment]
        return fetched((A, 0))

    stage.run(stage.assigned(a=0), rejoined, records((A, 1)))
    assert stage.sink.members == [GroupMember("connect-table", 7, "m1"), GroupMember("connect-table", 8, "m1")]
    assert [what for what in stage.log if what[0] in ("open", "put")] == [
        ("open", A), ("open",), ("put", 0), ("put", 1),
    ]  # fmt: skip


def test_a_batch_that_is_refused_is_put_again_as_the_same_object(tmp_path: Path) -> None:
    stage = Stage(tmp_path, PutEffects(thrown=AWAY, timeout_ms=0), PutEffects(thrown=AWAY, timeout_ms=0))
    stage.run(stage.assigned(a=0), records((A, 0)), stage.commits)
    first, *again = stage.sink.batches  # the host knows by this that it has it, converted
    assert len(again) == 2
    assert all(each is first for each in again)
    assert stage.counters.errors.retries == 2
    assert stage.committed() == [{A: 1}]


def test_batch_that_java_refuses_until_the_end_is_not_committed(tmp_path: Path) -> None:
    stage = Stage(tmp_path, *[PutEffects(thrown=AWAY, timeout_ms=60_000)] * 2)
    stage.run(stage.assigned(a=3), records((A, 3)), stage.commits)
    assert all(A not in each or each[A] == 3 for each in stage.committed())


def test_rewind_pause_resume_and_commit_requests_of_java_are_carried_out(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        PutEffects(rewinds={A: 0}),
        PutEffects(paused=(A,), requests_commit=True),
        PutEffects(resumed=(A,)),
    )
    seen: list[set[Any]] = []

    def looked(found: Fetched) -> Moment:
        def moment() -> Fetched:
            seen.append(set(stage.group.paused))
            return found

        return moment

    stage.run(
        stage.assigned(a=0, b=0),
        records((A, 0)),
        records((A, 0)),
        looked(fetched((B, 5))),
        looked(Fetched()),
    )
    assert ("seek", {A: 0}) in stage.log
    assert seen == [{A}, set()]
    assert stage.log.index(("commit", {A: 1})) < stage.log.index(("put", 5))


def test_dropped_record_becomes_a_dead_letter_before_its_offset_is_committed(tmp_path: Path) -> None:
    failure = Failure(
        1, "VALUE_CONVERTER", "org.apache.kafka.connect.errors.DataException", "no json", "org.example.Json", "java"
    )
    stage = Stage(tmp_path, PutEffects(processing=Processing(failures=(failure,), retries=4)))
    one = replace(fetched((A, 0), (A, 1)), values=[b"{}", b"{"], headers=[[], [("h", b"1")]])
    stage.run(stage.assigned(a=0), lambda: one)
    ((record, stage_name, class_name, error),) = stage.letters.taken
    assert (record.value, record.kafka_offset, record.at, stage_name) == (b"{", 1, A, "VALUE_CONVERTER")
    assert [(header.key, header.value) for header in record.headers] == [("h", b"1")]
    assert class_name == "org.example.Json"
    facts = dict(context_headers(stage.spec, origin_of(record), stage_name, class_name, error))
    assert facts["__connect.errors.exception.class.name"] == b"org.apache.kafka.connect.errors.DataException"
    assert facts["__connect.errors.exception.message"] == b"no json"
    assert facts["__connect.errors.exception.stacktrace"] == b"java"
    assert stage.log.index(("letter", 1)) < stage.log.index(("commit", {A: 2}))
    errors = stage.counters.errors
    assert (errors.skipped, errors.failures, errors.errors, errors.retries) == (1, 1, 1, 4)


def test_no_offset_is_committed_past_an_unacknowledged_dead_letter(tmp_path: Path) -> None:
    failure = Failure(0, "TRANSFORMATION", "org.example.Bad", None, "org.example.Picky")
    stage = Stage(tmp_path, PutEffects(processing=Processing(failures=(failure,))))
    stage.letters.answers = [False] * 10
    stage.run(stage.assigned(a=0), records((A, 0)), stage.commits)
    assert stage.committed() == []
    assert stage.letters.taken[0][2] == "org.example.Picky"


def test_reported_record_of_an_earlier_batch_becomes_a_dead_letter(tmp_path: Path) -> None:
    reported = PutEffects(errant=(errant(A, 0, "org.example.Unwanted", "too long", key=b"k", value=b"long"),))
    stage = Stage(tmp_path, PutEffects(), reported)
    first = replace(fetched((A, 0)), values=[b"long"], keys=[b"k"])
    stage.run(stage.assigned(a=0), lambda: first, records((A, 1)))
    ((record, stage_name, class_name, error),) = stage.letters.taken
    assert (record.key, record.value, stage_name, class_name) == (b"k", b"long", "TASK_PUT", "org.example.TableTask")
    assert (type(error).__module__, type(error).__qualname__) == ("org.example", "Unwanted")
    assert stage.log.index(("letter", 0)) < stage.log.index(("commit", {A: 2}))


def test_record_reported_in_a_flush_is_not_committed_before_its_dead_letter(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    def reports_later() -> PutEffects:
        stage.sink.flushed = PutEffects(errant=(errant(A, 0, "org.example.Unwanted", None),))
        stage.letters.answers = [True, False, False, False, False]  # safe before the flush, not after it
        return PutEffects()

    stage.java.script = [reports_later]
    stage.run(stage.assigned(a=0), records((A, 0)))
    assert [record.kafka_offset for record, *_ in stage.letters.taken] == [0]
    assert stage.committed() == []


def flushes_with(stage: Stage, *reported: Errant) -> Moment:
    """Return a poll from which on each flush reports these records, once."""

    def moment() -> Fetched:
        left = [PutEffects(errant=reported)]

        def pre_commit(offsets: Any) -> Any:
            stage.log.append(("pre_commit", dict(offsets)))
            return dict(offsets), left.pop() if left else PutEffects()

        stage.sink.pre_commit = pre_commit  # type: ignore[method-assign]
        return stage.commits()

    return moment


def test_refused_report_from_a_flush_is_retried_without_another_put(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path)
    stage.letters.refusals = [RetriableError("no leader")]
    reported = errant(A, 0, "org.example.Unwanted", None)
    stage.run(stage.assigned(a=0), records((A, 0), (A, 1)), flushes_with(stage, reported), stage.commits, Fetched)
    assert [what for what in stage.log if what[0] in ("put", "seek", "letter", "commit")] == [
        ("put", 0, 1),
        ("letter", 0),
        ("commit", {A: 2}),
    ]


def test_refused_report_from_a_flush_is_retried_after_a_partition_release(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path)
    stage.letters.refusals = [RetriableError("no leader")] * 2
    reported = errant(A, 0, "org.example.Unwanted", None)
    stage.run(
        stage.assigned(a=0, b=0),
        records((A, 0)),
        flushes_with(stage, reported),
        stage.taken_back([A], stage.loop.revoked),
        records((B, 0)),
        stage.commits,
    )
    assert [record.kafka_offset for record, *_ in stage.letters.taken] == [0]
    assert stage.committed()[-1] == {B: 1}


def test_task_fails_when_a_report_in_a_revocation_flush_is_refused_for_good(tmp_path: Path) -> None:
    """A task that keeps its own offsets may have passed the record: no other member would get it."""
    stage = Stage(tmp_path)
    stage.letters.refusals = [FatalError("too large")]
    reported = errant(A, 0, "org.example.Unwanted", None)

    def from_now_on() -> Fetched:
        flushes_with(stage, reported)()
        stage.context.is_commit_requested = False
        return Fetched()

    with pytest.raises(FatalError, match="too large"):
        stage.run(
            stage.assigned(a=0, b=0),
            records((A, 0), (B, 0)),
            from_now_on,
            stage.taken_back([A], stage.loop.revoked),
            records((B, 1)),
        )
    assert stage.committed() == []


def test_record_reported_after_its_offset_commit_becomes_a_dead_letter(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.run(
        stage.assigned(a=0),
        records((A, 0)),
        stage.commits,
        records((A, 1)),
        flushes_with(stage, errant(A, 0, "org.example.Unwanted", "too long")),
        records((A, 2)),
    )
    assert [record.kafka_offset for record, *_ in stage.letters.taken] == [0]
    assert stage.committed() == [{A: 1}, {A: 2}, {A: 3}]


def waits_for(stage: Stage, *reported: Errant, is_to_stop: bool = False) -> Callable[[], PutEffects]:
    """Return a put in which Java's task waits for a report, and the loop is told what it is told."""

    def put() -> PutEffects:
        if is_to_stop:
            stage.control.stop()
        try:
            stage.log.append(("waited", stage.java.sink_starts[-1].report(reported)))
        except ConnectError as error:
            stage.log.append(("refused", str(error)))
        return PutEffects()

    return put


def done() -> "Future[None]":
    written: Future[None] = Future()
    written.set_result(None)
    return written


def test_task_waiting_for_a_report_continues_once_the_dead_letter_is_written(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.java.script = [waits_for(stage, errant(A, 0, "org.example.Unwanted", None))]
    written: Future[None] = Future()
    stage.letters.written = lambda: written

    def acknowledge() -> None:
        eventually(lambda: stage.letters.taken, within_s=60)
        stage.log.append("acknowledged")
        written.set_result(None)

    thread = threading.Thread(target=acknowledge)
    thread.start()
    stage.run(stage.assigned(a=0), records((A, 0)))
    thread.join(60)
    assert [what for what in stage.log if what[0] in ("put", "letter", "a", "waited", "commit")] == [
        ("put", 0), ("letter", 0), "acknowledged", ("waited", 1), ("commit", {A: 1}),
    ]  # fmt: skip


def test_wait_for_a_report_fails_when_the_task_has_to_stop_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_task, "_LOOK_S", 0.01)
    stage = Stage(tmp_path)
    stage.context.last_letters_s = 0.02
    stage.java.script = [waits_for(stage, errant(A, 0, "org.example.Unwanted", None), is_to_stop=True)]
    stage.run(stage.assigned(a=0), records((A, 0)))
    assert ("refused", "task table-0 is to stop before its dead letters are written") in stage.log


def test_stopping_task_waits_for_a_report_as_long_as_for_its_last_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_task, "_LOOK_S", 0.001)
    stage = Stage(tmp_path)
    stage.context.last_letters_s = 600
    stage.letters.refusals = [RetriableError("no leader")] * 3
    looks: list[object] = []

    class Slow(Future[None]):
        def result(self, timeout: float | None = None) -> None:
            looks.append(timeout)
            if len(looks) == 100:
                self.set_result(None)
            super().result(timeout)

    stage.letters.written = Slow
    stage.java.script = [waits_for(stage, errant(A, 0, "org.example.Unwanted", None), is_to_stop=True)]
    stage.run(stage.assigned(a=0), records((A, 0)))
    assert [what for what in stage.log if what[0] in ("put", "refused", "waited", "letter", "commit")] == [
        ("put", 0), ("letter", 0), ("waited", 1), ("commit", {A: 1}),
    ]  # fmt: skip


def test_abandoned_task_waits_for_no_report_and_its_host_stays_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_task, "_LOOK_S", 0.001)
    stage = Stage(tmp_path)
    stage.context.last_letters_s = 600

    class Never(Future[None]):
        def result(self, timeout: float | None = None) -> None:
            stage.task.abandon()
            super().result(timeout)

    stage.letters.written = Never
    stage.java.script = [waits_for(stage, errant(A, 0, "org.example.Unwanted", None), is_to_stop=True)]
    stage.run(stage.assigned(a=0), records((A, 0)))
    assert ("refused", "task table-0 is to stop before its dead letters are written") in stage.log
    assert stage.host.end is None


def test_task_waits_for_a_report_while_its_dead_letter_is_refused_for_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_task, "_LOOK_S", 0.001)
    stage = Stage(tmp_path)
    stage.letters.refusals = [RetriableError("no leader")] * 3
    stage.letters.written = done
    stage.java.script = [waits_for(stage, errant(A, 0, "org.example.Unwanted", None))]
    stage.run(stage.assigned(a=0), records((A, 0)))
    assert [what for what in stage.log if what[0] in ("put", "waited", "letter", "commit")] == [
        ("put", 0), ("letter", 0), ("waited", 1), ("commit", {A: 1}),
    ]  # fmt: skip


def test_report_refused_until_the_stop_is_written_before_the_last_commit(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.context.last_letters_s = 0
    stage.letters.refusals = [RetriableError("no leader")]
    stage.java.script = [waits_for(stage, errant(A, 0, "org.example.Unwanted", None), is_to_stop=True)]
    stage.run(stage.assigned(a=0), records((A, 0)))
    assert [what for what in stage.log if what[0] in ("put", "refused", "letter", "commit")] == [
        ("put", 0), ("refused", "no leader"), ("letter", 0), ("commit", {A: 1}),
    ]  # fmt: skip


def test_untolerated_report_fails_the_task_although_put_returns(tmp_path: Path) -> None:
    stage = Stage(tmp_path, tolerates=False)
    stage.java.script = [waits_for(stage, errant(A, 0, "org.example.Unwanted", "too long"))]
    with pytest.raises(FatalError, match="too long"):
        stage.run(stage.assigned(a=0), records((A, 0)))
    assert [record.kafka_offset for record, *_ in stage.letters.taken] == [0]
    assert all(each[A] == 0 for each in stage.committed())


def test_a_report_in_stop_is_refused(tmp_path: Path) -> None:
    """The producer of dead letters has ended by then."""
    stage = Stage(tmp_path)
    stage.run(stage.assigned(a=0), records((A, 0)))
    with pytest.raises(RetriableError, match="has ended"):
        stage.java.sink_starts[-1].report([errant(A, 0, "org.example.Unwanted", None)])
    assert stage.letters.taken == []


def test_records_that_were_put_are_not_kept_in_python(tmp_path: Path) -> None:
    """However long it is before Java's preCommit covers it: the host has what the task has."""

    class Value:
        pass

    stage = Stage(tmp_path)
    stage.task.start()
    stage.sink.allowed = lambda _: {}
    values = [Value() for _ in range(20)]
    left = [weakref.ref(value) for value in values]
    for offset in range(20):
        stage.task.put(SinkBatch.of_records([SinkRecord(A.topic, A.partition, offset, values.pop(0), at=A)]))
        assert stage.task.pre_commit({A: offset + 1}) == {}
    stage.sink.batches.clear()
    stage.task.put(SinkBatch.of_records([]))
    gc.collect()
    stage.task.stop()
    assert [value for value in left if value() is not None] == []


def test_untolerated_report_from_a_flush_becomes_one_dead_letter(tmp_path: Path) -> None:
    stage = Stage(tmp_path, tolerates=False)
    with pytest.raises(FatalError, match="too long"):
        stage.run(
            stage.assigned(a=0), records((A, 0)), flushes_with(stage, errant(A, 0, "org.example.Unwanted", "too long"))
        )
    assert [record.kafka_offset for record, *_ in stage.letters.taken] == [0]
    assert stage.committed() == []


def closes_with(stage: Stage, *reported: Errant) -> Moment:
    """Return a poll in which partition A is taken back, whose close reports these records."""

    def moment() -> Fetched:
        stage.sink.closed = Effects(errant=reported)
        try:
            return stage.taken_back([A], stage.loop.revoked)()
        finally:
            stage.sink.closed = Effects()

    return moment


def test_record_reported_in_close_is_a_dead_letter_before_its_offset_commit(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.run(stage.assigned(a=0), records((A, 0)), closes_with(stage, errant(A, 0, "org.example.Unwanted", None)))
    assert [what for what in stage.log if what[0] in ("pre_commit", "close", "letter", "commit")] == [
        ("pre_commit", {A: 1}),
        ("close", A),
        ("letter", 0),
        ("commit", {A: 1}),
    ]


def test_record_is_not_committed_when_its_report_in_close_is_refused_for_now(
    tmp_path: Path,
) -> None:
    """The next owner of its partition gets it again."""
    stage = Stage(tmp_path)
    stage.letters.refusals = [RetriableError("no leader")]
    stage.run(
        stage.assigned(a=0, b=0),
        records((A, 0), (B, 0)),
        closes_with(stage, errant(A, 0, "org.example.Unwanted", None)),
        records((B, 1)),
        stage.commits,
    )
    assert [what for what in stage.log if what[0] in ("put", "letter", "commit")] == [
        ("put", 0, 0),
        ("put", 1),
        ("letter", 0),
        ("commit", {B: 2}),
    ]


def test_untolerated_report_in_close_fails_the_task_without_a_commit(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path, tolerates=False)
    with pytest.raises(FatalError, match="too long"):
        stage.run(
            stage.assigned(a=0), records((A, 0)), closes_with(stage, errant(A, 0, "org.example.Unwanted", "too long"))
        )
    assert [record.kafka_offset for record, *_ in stage.letters.taken] == [0]
    assert stage.committed() == []


def test_untolerated_report_in_a_release_flush_fails_the_task_at_the_next_put(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path, tolerates=False)

    def released() -> Fetched:
        stage.sink.flushed = Effects(errant=(errant(A, 0, "org.example.Unwanted", "too long"),))
        return stage.taken_back([A], stage.loop.revoked)()

    with pytest.raises(FatalError, match="too long"):
        stage.run(stage.assigned(a=0, b=0), records((A, 0), (B, 0)), released, records((B, 1)))
    assert [record.kafka_offset for record, *_ in stage.letters.taken] == [0]
    assert stage.committed() == []


def test_untolerated_report_fails_the_task_and_its_batch_is_not_committed(tmp_path: Path) -> None:
    stage = Stage(tmp_path, PutEffects(errant=(errant(A, 0, "org.example.Unwanted", "too long"),)), tolerates=False)
    with pytest.raises(FatalError, match="too long"):
        stage.run(stage.assigned(a=0), records((A, 0)))
    assert all(each[A] == 0 for each in stage.committed())
    assert [record.kafka_offset for record, *_ in stage.letters.taken] == [0]


def test_batch_is_not_put_again_when_only_its_dead_letters_are_refused(tmp_path: Path) -> None:
    bad = [Failure(row, "VALUE_CONVERTER", "org.example.Bad", None, "org.example.Json") for row in (0, 1)]
    reported = (errant(A, 2, "org.example.Unwanted", None),)
    stage = Stage(tmp_path, PutEffects(processing=Processing(failures=tuple(bad)), errant=reported))
    stage.letters.refusals = [None, RetriableError("no leader"), RetriableError("no leader")]
    stage.run(stage.assigned(a=0), records((A, 0), (A, 1), (A, 2)), Fetched, Fetched, stage.commits)
    assert [entry for entry in stage.log if entry[0] in ("put", "letter")] == [
        ("put", 0, 1, 2),
        ("letter", 0),
        ("letter", 1),
        ("letter", 2),
    ]
    assert stage.committed() == [{A: 3}]


def test_no_offset_is_committed_before_a_refused_report_of_an_earlier_batch(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path, PutEffects(), PutEffects(errant=(errant(A, 0, "org.example.Unwanted", None),)))
    stage.letters.refusals = [RetriableError("no leader")] * 2
    stage.run(stage.assigned(a=0), records((A, 0)), records((A, 1)), stage.commits, Fetched)
    assert [what for what in stage.log if what[0] in ("put", "letter", "commit")] == [
        ("put", 0),
        ("put", 1),
        ("letter", 0),
        ("commit", {A: 1}),
        ("commit", {A: 2}),
    ]


def test_earlier_record_is_reported_even_if_the_reporting_batch_is_released(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path, PutEffects(), PutEffects(errant=(errant(A, 0, "org.example.Unwanted", None),)))
    stage.letters.refusals = [RetriableError("no leader")] * 3
    stage.run(
        stage.assigned(a=0, b=0),
        records((A, 0)),
        records((B, 0)),
        stage.taken_back([B], stage.loop.revoked),
        records((A, 1)),
        stage.commits,
    )
    assert [what for what in stage.log if what[0] in ("letter", "commit")] == [("letter", 0), ("commit", {A: 2})]


@pytest.mark.parametrize("tolerates", [True, False])
def test_unconverted_record_of_a_released_batch_is_left_to_the_next_owner(tmp_path: Path, tolerates: bool) -> None:
    failure = Failure(0, "VALUE_CONVERTER", "org.example.Bad", None, "org.example.Json")
    stage = Stage(tmp_path, PutEffects(processing=Processing(failures=(failure,))), tolerates=tolerates)
    stage.letters.refusals = [RetriableError("no leader")] * 2
    stage.run(
        stage.assigned(a=0, b=0),
        records((A, 0)),
        stage.taken_back([A], stage.loop.revoked),
        records((B, 0)),
        stage.commits,
    )
    assert [what for what in stage.log if what[0] in ("put", "letter", "commit")] == [
        ("put", 0), ("put", 0), ("commit", {B: 1}),
    ]  # fmt: skip


def test_untolerated_record_is_a_dead_letter_and_fails_the_task(
    tmp_path: Path,
) -> None:
    failure = Failure(
        1, "VALUE_CONVERTER", "org.example.Bad", "no json", "org.example.Json", "org.example.Bad: no json"
    )
    failed = JavaError("org.example.Bad: no json", THROWN)
    effects = PutEffects(processing=Processing(failures=(failure,)), thrown=failed)
    stage = Stage(tmp_path, effects, tolerates=False)
    with pytest.raises(JavaError, match="no json") as caught:
        stage.run(stage.assigned(a=0), records((A, 0), (A, 1)))
    assert (
        "stage 'VALUE_CONVERTER' failed for the record for topic t, partition 0, offset 1: org.example.Bad: no json"
        in str(caught.value.__cause__)
    )
    assert [record.kafka_offset for record, *_ in stage.letters.taken] == [1]
    assert all(each[A] == 0 for each in stage.committed())


def test_records_that_transforms_remove_do_not_count_as_put(tmp_path: Path) -> None:
    failure = Failure(2, "VALUE_CONVERTER", "org.example.Bad", None, "org.example.Json")
    first = PutEffects(processing=Processing(filtered=1, failures=(failure,)), thrown=AWAY, timeout_ms=0)
    stage = Stage(tmp_path, first, PutEffects())
    stage.run(stage.assigned(a=0), records(*[(A, n) for n in range(5)]), stage.commits, records((A, 5)))
    assert stage.counters.records_written == 4


def test_exception_of_put_fails_the_task(tmp_path: Path) -> None:
    stage = Stage(tmp_path, JavaError("no table", THROWN))
    with pytest.raises(FatalError, match="no table"):
        stage.run(stage.assigned(a=2), records((A, 2)))
    assert all(each == {A: 2} for each in stage.committed())
    assert stage.log[-1] == ("stop",)


def test_host_loss_names_all_tasks_of_the_host_and_commits_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    def ended() -> PutEffects:
        stage.host.end = "exit code 3: out of memory"
        raise HostEndedError(stage.host.end)

    stage.java.script = [ended]
    stage.plugins.find(PluginKind.CONNECTOR, TABLE).plugins.hosts.tasks.take("neighbour")
    with pytest.raises(HostLostError) as caught:
        stage.run(stage.assigned(a=0), records((A, 0)))
    assert str(caught.value) == "the host (a JVM) of its slot ended: exit code 3: out of memory"
    assert caught.value.companions == {"incarnation", "neighbour"}
    assert caught.value.is_crash
    assert stage.committed() == []


def test_nothing_is_committed_when_the_host_ends_before_it_has_flushed(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    def killed() -> Fetched:
        stage.host.end = "signal 9"
        return stage.commits()

    with pytest.raises(HostLostError):
        stage.run(stage.assigned(a=0), records((A, 0)), killed, records((A, 0)))
    assert stage.committed() == []


def test_nothing_is_committed_when_the_host_ends_while_it_closes(tmp_path: Path) -> None:
    """Java may have reported records in its `close`: these reports are lost with the host."""
    stage = Stage(tmp_path)

    def allows_and_dies(offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        stage.host.end = "exit code 3: out of memory"
        return offsets

    def released() -> Fetched:
        stage.sink.allowed = allows_and_dies
        return stage.taken_back([A], stage.loop.revoked)()

    with pytest.raises(HostLostError):
        stage.run(stage.assigned(a=0, b=0), records((A, 0), (B, 0)), released, records((B, 1)))
    assert stage.committed() == []


def test_interrupted_put_that_returns_leaves_the_host_alive_for_other_tasks(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    is_reached, errors = threading.Event(), []

    def sleeps() -> PutEffects:
        is_reached.set()
        assert stage.sink.is_interrupted.wait(120)
        raise JavaError("java.lang.InterruptedException", THROWN)

    def run() -> None:
        try:
            stage.run(stage.assigned(a=0), records((A, 0)))
        except JavaError as error:
            errors.append(error)

    stage.java.script = [sleeps]
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert is_reached.wait(120)
    stage.task.abandon()
    thread.join(120)
    assert len(errors) == 1
    eventually(lambda: not any(each.name == "abandon-table-0" for each in threading.enumerate()), within_s=120)
    assert stage.host.end is None


def test_host_is_killed_when_an_abandoned_task_never_returns_from_put(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_task, "_INTERRUPTED_S", 0.05)
    stage = Stage(tmp_path)
    is_reached, ends = threading.Event(), []

    def hangs() -> PutEffects:
        is_reached.set()
        eventually(lambda: stage.host.end is not None, within_s=120)
        raise HostEndedError(str(stage.host.end))

    def run() -> None:
        try:
            stage.run(stage.assigned(a=0), records((A, 0)))
        except HostLostError as error:
            ends.append(error)

    stage.java.script = [hangs]
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert is_reached.wait(60)
    stage.task.abandon()
    thread.join(60)
    (error,) = ends
    assert "task table-0 did not stop in time" in str(error)
    assert not error.is_crash
    assert stage.committed() == []


def test_task_that_cannot_start_releases_the_shared_host(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    lease = stage.plugins.find(PluginKind.CONNECTOR, TABLE).plugins.hosts.tasks.take("neighbour")

    def refuse(start: Any) -> Any:
        raise JavaError("no database", THROWN)

    stage.host.sink_task = refuse  # type: ignore[method-assign]
    with pytest.raises(FatalError, match="no database"):
        stage.run()
    assert lease.companions() == {"neighbour"}


def test_headers_reach_a_java_sink_as_bytes(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    one = replace(fetched((A, 0)), headers=[[("h", b"1")]])
    stage.run(stage.assigned(a=0), lambda: one)
    (batch,) = stage.sink.batches
    assert batch.record(0).headers[0].value == b"1"
    assert isinstance(batch.record(0).headers[0], Header)
