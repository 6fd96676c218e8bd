"""The task of a DataFrame sink, on the real broker: epochs, whatever happens between their steps."""

import json
import re
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient, NewPartitions
from epoch_stage import Sink, Stage, crash
from opentelemetry import trace

from fencepost.api import Epoch, RetriableError
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.admin.log_offsets import LogOffsets
from fencepost.kafka.errors import KafkaRequestError, KafkaUnavailableError
from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.kafka.read.client_fetcher import NoFetcher
from fencepost.kafka.read.group_input import GroupInput
from fencepost.kafka.read.known_positions import StartPositions
from fencepost.kafka.setting.client_settings import sink_conf, transactional_conf
from fencepost.kafka.value.position import GroupOffset
from fencepost.record import TopicPartition
from fencepost.task.failure.tolerance import BackOff
from fencepost.task.sink.epoch_plan import EpochMetadata, EpochOffset
from fencepost.testing import eventually
from fencepost.transaction import TransactionalWriter
from fencepost.worker.host.epoch import task as epoch_logs
from fencepost.worker.host.epoch.membership import EpochMembership
from fencepost.worker.host.frame import task as frame_task
from support.group_commit import commit_for
from support.quick import quick_kafka
from support.traced import Traced, id_of, parent_of


@pytest.fixture
def stage(kafka, topic_name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    made = Stage(kafka.bootstrap_servers, topic_name, monkeypatch)
    yield made
    made.end()


def test_records_are_written_epoch_by_epoch_and_committed(stage: Stage) -> None:
    stage.produce(5)
    stage.produce(3, 1)
    stage.start()
    eventually(lambda: stage.offsets() == {0: 5, 1: 3}, within_s=60)
    stage.produce(4)
    eventually(lambda: stage.offsets() == {0: 9, 1: 3}, within_s=60)
    stage.store.holds({0: 9, 1: 3})


def test_epoch_has_no_more_than_epoch_rows_max_records(stage: Stage) -> None:
    stage.produce(95)
    stage.start(**{"epoch.rows.max": "10"})
    eventually(lambda: stage.offsets().get(0) == 95, within_s=60)
    assert max(end - start for _, start, end in stage.store.ranges()) == 10
    stage.store.holds({0: 95})


def test_partition_with_too_few_records_waits_while_others_are_written(stage: Stage) -> None:
    stage.produce(4)
    stage.produce(30, 1)
    stage.start(**{"epoch.partition.rows.min": "10", "epoch.partition.wait.max.ms": "120000"})
    eventually(lambda: stage.offsets() == {0: 0, 1: 30}, within_s=60)
    for count in (31, 41):
        stage.produce(1)
        stage.produce(10, 1)
        eventually(lambda count=count: stage.offsets().get(1, 0) >= count, within_s=60)
    assert stage.offsets()[0] == 0
    stage.produce(4)
    eventually(lambda: stage.offsets() == {0: 10, 1: 50}, within_s=60)
    assert [each for each in stage.store.ranges() if each[0] == 0] == [(0, 0, 10)]
    assert all(end - start >= 10 for _, start, end in stage.store.ranges())


def test_partition_with_too_few_records_is_written_after_the_maximum_wait(stage: Stage) -> None:
    stage.produce(4)
    stage.start(**{"epoch.partition.rows.min": "10", "epoch.partition.wait.max.ms": "1500"})
    eventually(lambda: stage.offsets() == {0: 4, 1: 0}, within_s=60)
    assert stage.store.ranges() == [(0, 0, 4)]


@pytest.mark.parametrize("step", ["write", "publish", "published"])
def test_e16_an_epoch_that_was_begun_is_finished_with_the_same_ranges(stage: Stage, step: str) -> None:
    stage.produce(5)
    held = stage.store.hold(step)
    first = stage.start()
    held.await_met()
    stage.produce(7)  # what a new plan would take, too
    crash(first)
    stage.start()
    eventually(lambda: stage.offsets().get(0) == 12, within_s=60)
    held.release()
    assert (0, 0, 5) in stage.store.ranges()
    eventually(lambda: len([t for t in threading.enumerate() if t.name.startswith(step)]) == 0, within_s=60)
    stage.store.holds({0: 12})
    tokens = [token for token, epoch in stage.store.written.items() if epoch.ranges[0].start == 0]
    assert len(tokens) == (2 if step == "write" else 1), "what was durably written is published, not written again"


@pytest.mark.parametrize("fate", ["deleted", "taken out"])
def test_e16_decided_epoch_is_published_once_when_one_of_its_topics_is_deleted(stage: Stage, fate: str) -> None:
    """One topic of the epoch is shown when the start dies; then the other one goes."""
    other = f"{stage.topic}-b"
    Admin({"bootstrap.servers": stage.bootstrap}).topics.create(other, partitions=1, replication=1)
    stage.produce(5)
    stage.produce(4, topic=other)
    stage.store.before["during publish"] = lambda _: crash(first)
    first = stage.start(topics=[stage.topic, other])
    first.thread.join(60)
    stage.store.before.clear()
    assert stage.store.ranges() == [(0, 0, 5)]
    if fate == "deleted":
        admin = AdminClient({"bootstrap.servers": stage.bootstrap})
        admin.delete_topics([other])[other].result(30)
    stage.produce(2)
    second = stage.start()
    eventually(lambda: stage.offsets().get(0) == 7, within_s=60)
    stage.store.holds({0: 7})
    assert [token for token, epoch in stage.store.written.items() if epoch.ranges[0].start == 0] == [
        *stage.store.aside
    ][:1]
    if fate == "taken out":
        assert stage.offsets(other) == {0: 4}, "its output was decided, and may have been shown"
        second.control.stop()
        second.thread.join(60)
        stage.produce(3, topic=other)
        stage.start(topics=[stage.topic, other])
        eventually(lambda: stage.offsets(other) == {0: 7}, within_s=60)
        assert stage.store.ranges(other) == [(0, 0, 4), (0, 4, 7)]


def test_e17_epoch_numbers_continue_after_those_in_the_store(stage: Stage) -> None:
    stage.produce(5)
    first = stage.start()
    eventually(lambda: stage.offsets().get(0) == 5, within_s=60)
    first.control.stop()
    first.thread.join(60)
    GroupOffsets({"bootstrap.servers": stage.bootstrap}, stage.group).delete()

    def die(epoch: Epoch) -> None:
        crash(second)
        raise RuntimeError("it was killed")

    stage.store.before["write"] = die
    second = stage.start()
    second.thread.join(60)
    stage.store.before.clear()
    assert [epoch.number for epoch in stage.store.written.values()] == [1]
    assert stage.note().number == 2
    stage.store.newest = 7  # what a zombie has written since
    stage.start()
    eventually(lambda: stage.offsets().get(0) == 5, within_s=60)
    assert [epoch.number for epoch in stage.store.written.values()] == [1, 8]


@pytest.mark.parametrize("refused", ["plan", "token"])
def test_e16_epoch_keeps_its_ranges_when_a_commit_ends_in_an_unknown_error(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    """So says a coordinator for many reasons. The plan is durable all the same, or `write` has shown it already."""
    commit, has_failed = GroupInput.commit, []

    def failing(self: GroupInput, offsets: Any) -> Any:
        key = "token" if refused == "token" else "end"
        if has_failed or not any(json.loads(each.metadata).get(key) for each in offsets):
            return commit(self, offsets)
        has_failed.append(1)
        if refused == "plan":
            commit(self, offsets)
        raise KafkaRequestError("it is made up", KafkaError.UNKNOWN)

    monkeypatch.setattr(GroupInput, "commit", failing)
    stage.produce(5)
    stage.produce(3, 1)
    stage.start()
    eventually(lambda: stage.offsets() == {0: 5, 1: 3}, within_s=60)
    assert has_failed
    assert len({epoch.ranges for epoch in stage.store.written.values()}) == 1
    stage.store.holds({0: 5, 1: 3})


def test_e16_replaced_start_publishes_nothing_that_is_not_durable(stage: Stage) -> None:
    """A start stands still in `write` for longer than its session; another takes over, and then it goes on."""
    stage.produce(5)
    held = stage.store.hold("write")
    first = stage.start()
    held.await_met()
    member = first.membership.input
    assert member is not None
    eventually(lambda: member.abandon() or member._client.is_closed, within_s=60)  # the group is others' now
    stage.start()
    eventually(lambda: stage.offsets().get(0) == 5, within_s=60)
    first.control.stop()  # else it would join once more, and hold the other one up
    held.release()
    first.thread.join(60)
    assert not first.thread.is_alive()
    stage.produce(2)
    eventually(lambda: stage.offsets().get(0) == 7, within_s=60)
    stage.store.holds({0: 7})


def test_start_with_only_some_of_the_partitions_writes_nothing(stage: Stage) -> None:
    stage.produce(5)
    stage.produce(5, 1)

    class Other:
        def assigned(self, positions: Any, fresh: Any) -> Any:
            return {}

        def revoked(self, partitions: Any) -> None: ...

        lost = revoked

    conf = sink_conf({"bootstrap.servers": stage.bootstrap, "session.timeout.ms": "6000"}, stage.group, "other").conf
    other = GroupInput(dict(conf), [stage.topic], cast(Any, Other()), fetcher=NoFetcher)
    eventually(lambda: bool(other.poll(0.1, 1)) or len(other.assignment) == 2, within_s=60)
    task = stage.start()
    eventually(lambda: bool(other.poll(0.1, 1)) or len(other.assignment) == 1, within_s=60)
    eventually(lambda: bool(other.poll(0.1, 1)) or len(task.membership.held.offsets) == 1, within_s=60)
    for _ in range(10):
        other.poll(0.1, 1)
    assert stage.store.ranges() == []
    assert stage.offsets() == {}
    other.close()
    eventually(lambda: stage.offsets() == {0: 5, 1: 5}, within_s=60)
    stage.store.holds({0: 5, 1: 5})


def test_pausing_keeps_the_membership_and_writes_nothing(stage: Stage) -> None:
    stage.produce(5)
    task = stage.start()
    eventually(lambda: stage.offsets().get(0) == 5, within_s=60)
    task.control.pause()
    eventually(lambda: stage.reports[-1].state == "PAUSED", within_s=60)
    stage.produce(5)
    group = Admin({"bootstrap.servers": stage.bootstrap}).groups.describe(stage.group)
    assert len(group.members) == 1
    with pytest.raises(AssertionError):
        eventually(lambda: stage.offsets() != {0: 5, 1: 0}, within_s=1.5)
    task.control.resume()
    eventually(lambda: stage.offsets().get(0) == 10, within_s=60)


def test_a_failed_write_is_tried_again_for_the_same_ranges(stage: Stage) -> None:
    stage.produce(5)
    failures = [OSError("no space left on device"), OSError("no space left on device")]

    def fail(epoch: Epoch) -> None:
        stage.produce(1)
        if failures:
            raise failures.pop()

    stage.store.before["write"] = fail
    stage.start()
    eventually(lambda: stage.offsets().get(0, 0) >= 5, within_s=60)
    stage.store.before.clear()
    assert stage.store.ranges()[0] == (0, 0, 5)
    assert any("no space left" in (report.trace or "") for report in stage.reports)


def test_paused_task_reports_its_unfinished_epoch(stage: Stage) -> None:
    is_broken = True

    def fail(epoch: Epoch) -> None:
        if is_broken:
            raise OSError("no space left on device")

    stage.produce(5)
    stage.store.before["write"] = fail
    task = stage.start()
    eventually(lambda: any("no space left" in (report.trace or "") for report in stage.reports), within_s=60)
    task.control.pause()
    eventually(lambda: stage.reports[-1].state == "PAUSED", within_s=60)
    assert "Epoch 1 has begun and is not finished" in (stage.reports[-1].trace or "")
    is_broken = False
    task.control.resume()
    eventually(lambda: stage.offsets().get(0) == 5, within_s=60)
    task.control.pause()
    eventually(lambda: stage.reports[-1].state == "PAUSED", within_s=60)
    assert not stage.reports[-1].trace


LETTERS = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": "epoch-letters",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
    "value.schema": "n INT",
}


def test_e13_epoch_is_not_committed_before_its_dead_letters_are_acknowledged(stage: Stage) -> None:
    stage.produce(5)
    failures = [RetriableError("the broker refused a dead letter"), RetriableError("the broker refused a dead letter")]
    notes: list[EpochMetadata] = []

    def fail(epoch: Epoch) -> None:
        notes.append(stage.note())
        if failures:
            raise failures.pop()

    stage.store.before["letters"] = fail
    stage.start(**LETTERS)
    eventually(lambda: stage.offsets().get(0) == 5, within_s=60)
    assert len(notes) == 3
    assert all((note.end, note.token) == (5, None) for note in notes), notes
    assert [each.ranges[0].end for each in stage.store.letters] == [5]
    stage.store.holds({0: 5})


def test_e13_takeover_writes_dead_letters_again_unless_the_token_is_durable(stage: Stage) -> None:
    stage.produce(5)
    held = stage.store.hold("letters")
    first = stage.start(**LETTERS)
    held.await_met()
    crash(first)
    stage.store.before["publish"] = lambda _: crash(second)
    second = stage.start(**LETTERS)
    second.thread.join(60)
    assert len(stage.store.letters) == 1
    held.release()
    stage.store.before.clear()
    stage.start(**LETTERS)
    eventually(lambda: stage.offsets().get(0) == 5, within_s=60)
    eventually(lambda: len(stage.store.letters) == 2, within_s=30)  # the second's, and late, the first's
    stage.store.holds({0: 5})


def test_dead_letters_are_not_written_twice_by_the_same_start(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.produce(5)
    commit, failures = EpochMembership.commit, [KafkaUnavailableError("the coordinator moves")]

    def fails(self: EpochMembership, offsets: Any) -> None:
        if failures and any(each.metadata.token for each in offsets.values()):
            raise failures.pop()
        commit(self, offsets)

    monkeypatch.setattr(EpochMembership, "commit", fails)
    stage.start(**LETTERS)
    eventually(lambda: stage.offsets().get(0) == 5, within_s=60)
    assert not failures
    assert (len(stage.store.written), len(stage.store.letters)) == (2, 1)


@pytest.mark.parametrize(("count", "epochs"), [(0, 0), (3, 1), (None, 1)])
def test_epoch_is_not_reread_for_dead_letters_when_no_row_was_left_out(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, count: int | None, epochs: int
) -> None:
    monkeypatch.setattr("epoch_stage.Sink.writes_at_once", True)
    monkeypatch.setattr("fencepost.worker.host.epoch.sink_and_stream.Tally.count", lambda _: count)
    stage.produce(5)
    stage.start(**LETTERS)
    eventually(lambda: stage.offsets().get(0) == 5, within_s=60)
    assert len(stage.store.letters) == epochs


@pytest.mark.parametrize(
    ("count", "written", "told"),
    [
        (3, 1, {"2 records that were left out have no dead letter"}),
        (1, 3, {"2 records that were written have dead letters, too"}),
        (3, 3, set()),
    ],
)
def test_a_difference_between_rows_left_out_and_dead_letters_is_logged(
    stage: Stage,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    count: int,
    written: int,
    told: set[str],
) -> None:
    """Some have gone from the topic since they were read, or were told otherwise when they were read again."""
    monkeypatch.setattr("epoch_stage.Sink.writes_at_once", True)
    monkeypatch.setattr("fencepost.worker.host.epoch.sink_and_stream.Tally.count", lambda _: count)
    monkeypatch.setattr("fencepost.worker.host.epoch.sink_and_stream.write_dead_letters", lambda *_: written)
    stage.produce(5)
    stage.start(**LETTERS)
    eventually(lambda: stage.offsets().get(0) == 5, within_s=60)
    assert set(re.findall(r"2 records that were .* letters?(?:, too)?", caplog.text)) == told


def test_no_dead_letters_are_written_when_errors_are_not_tolerated(stage: Stage) -> None:
    stage.produce(5)
    stage.start(**{**LETTERS, "errors.tolerance": "none"})
    eventually(lambda: stage.offsets().get(0) == 5, within_s=60)
    assert stage.store.letters == []


def test_partition_added_later_is_written(stage: Stage) -> None:
    stage.produce(5)
    stage.start()
    eventually(lambda: stage.offsets().get(0) == 5, within_s=60)
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    admin.create_partitions([NewPartitions(stage.topic, 3)])[stage.topic].result(30)
    stage.produce(4, 2)
    stage.produce(2)
    eventually(lambda: stage.offsets().get(2) == 4, within_s=60)
    eventually(lambda: stage.offsets().get(0) == 7, within_s=60)
    stage.store.holds({0: 7, 2: 4})


def test_auto_offset_reset_latest_keeps_records_from_before_the_first_epoch(stage: Stage) -> None:
    stage.produce(3)
    first = stage.start(auto_offset_reset="latest")
    eventually(lambda: stage.offsets() == {0: 3, 1: 0}, within_s=60)  # it says where it has begun
    crash(first)
    first.thread.join(60)
    stage.produce(4)
    stage.produce(2, 1)
    stage.start(auto_offset_reset="latest")
    eventually(lambda: stage.offsets() == {0: 7, 1: 2}, within_s=60)
    assert stage.store.ranges() == [(0, 3, 7), (1, 0, 2)]


def test_task_that_starts_paused_commits_the_log_ends_where_it_begins(stage: Stage) -> None:
    """Or what comes before it is resumed would be passed over by whoever runs it next."""
    stage.produce(3)
    first = stage.start(auto_offset_reset="latest", is_paused=True)
    eventually(lambda: stage.offsets() == {0: 3, 1: 0}, within_s=60)
    crash(first)
    first.thread.join(60)
    stage.produce(4)
    stage.start(auto_offset_reset="latest")
    eventually(lambda: stage.offsets() == {0: 7, 1: 0}, within_s=60)
    assert stage.store.ranges() == [(0, 3, 7)]


def test_a_lost_position_fails_the_task_if_auto_offset_reset_is_none(stage: Stage) -> None:
    stage.produce(10)
    stage.alter({TopicPartition(stage.topic, 0): 2, TopicPartition(stage.topic, 1): 0})
    stage.delete_before(6)
    task = stage.start(auto_offset_reset="none")
    task.thread.join(60)
    assert stage.reports[-1].state == "FAILED"
    assert "auto.offset.reset is none" in (stage.reports[-1].trace or "")
    assert stage.store.ranges() == []
    stage.start(auto_offset_reset="earliest")
    eventually(lambda: stage.offsets().get(0) == 10, within_s=60)
    assert stage.store.ranges() == [(0, 6, 10)]


def test_group_copied_by_a_mirror_continues_at_its_offsets(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the offsets come the ids that topics have in the other cluster, but no leader epochs."""
    monkeypatch.setattr(epoch_logs, "SURE_S", 0.0)
    stage.produce(5)
    stage.produce(2, 1)
    copied = '{"number":7,"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ"}'
    places = {TopicPartition(stage.topic, 0): 3, TopicPartition(stage.topic, 1): 2}
    group = GroupOffsets({"bootstrap.servers": stage.bootstrap}, stage.group)
    commit_for(group, [GroupOffset(*place, offset, copied) for place, offset in places.items()])
    stage.start()
    eventually(lambda: stage.offsets() == {0: 5, 1: 2}, within_s=60)
    assert stage.store.ranges() == [(0, 3, 5)]
    committed = EpochOffset.of(stage.committed()[0])
    assert (committed.leader_epoch, committed.metadata.number) == (0, 8)
    assert committed.metadata.topic_id not in (None, "AAAAAAAAAAAAAAAAAAAAAQ")


def test_position_above_an_open_transaction_is_kept(stage: Stage) -> None:
    stage.produce(5)
    conf = transactional_conf({"bootstrap.servers": stage.bootstrap}, f"open-{stage.topic}").conf
    open_ = TransactionalWriter(conf, f"open-{stage.topic}")
    open_.open()
    open_.send(stage.topic, b"x", partition=0)
    open_.flush()
    stage.produce(3)  # behind it
    stage.alter({TopicPartition(stage.topic, 0): 9, TopicPartition(stage.topic, 1): 0})
    stage.produce(1, 1)
    stage.start()
    eventually(lambda: stage.offsets().get(1) == 1, within_s=60)
    open_.commit()
    open_.close()
    stage.produce(2)
    eventually(lambda: stage.offsets().get(0, 0) >= 11, within_s=60)
    assert min(start for partition, start, _ in stage.store.ranges() if partition == 0) == 9


def test_only_the_ends_of_logs_are_requested_if_the_group_has_read_to_them(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[list[tuple[str, int]]] = []
    starts = LogOffsets.starts

    def noted(self: LogOffsets, places: Any, **more: Any) -> Any:
        looks.append(list(places))
        return starts(self, looks[-1], **more)

    monkeypatch.setattr(LogOffsets, "starts", noted)
    stage.produce(5)
    stage.start()
    eventually(lambda: stage.offsets() == {0: 5, 1: 0}, within_s=60)
    assert [(stage.topic, 0)] in looks
    looks.clear()
    eventually(lambda: len(looks) > 2, within_s=30)
    assert not any(looks)


def test_a_takeover_that_fails_is_tried_again(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [KafkaUnavailableError("the coordinator moves")]
    stored = StartPositions.stored

    def fails(self: StartPositions, places: Any, membership: Any) -> Any:
        if failures and places:
            raise failures.pop()
        return stored(self, places, membership)

    monkeypatch.setattr(StartPositions, "stored", fails)
    stage.produce(5)
    stage.start()
    eventually(lambda: stage.offsets().get(0) == 5, within_s=60)
    assert not failures


def test_a_token_that_is_too_long_fails_the_task(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epoch_stage.Sink.write", lambda *_: "\u00e9" * 1_500)
    stage.produce(5)
    task = stage.start()
    task.thread.join(60)
    assert stage.reports[-1].state == "FAILED"
    assert "a token that is too long" in (stage.reports[-1].trace or "")


@pytest.mark.parametrize(("error", "tries"), [(ValueError("no such table"), 5), (SystemExit("no licence"), 1)])
def test_error_raised_by_a_connectors_write_fails_the_task_with_its_trace(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, error: BaseException, tries: int
) -> None:
    tried = []

    def write(*_: object) -> str:
        tried.append(1)
        raise error

    monkeypatch.setattr("epoch_stage.Sink.write", write)
    monkeypatch.setattr("fencepost.worker.host.frame.task.BackOff", lambda control, _: BackOff(control, (0.0,)))
    stage.produce(5)
    task = stage.start()
    eventually(lambda: stage.reports and stage.reports[-1].state == "FAILED", within_s=60)
    task.thread.join(60)
    assert len(tried) == tries
    trace = stage.reports[-1].trace or ""
    assert f"{type(error).__name__}: {error}" in trace
    assert "in write" in trace, "the author's own frame"


def test_epoch_is_split_when_its_metadata_exceeds_the_brokers_limit(
    topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan fits, and what is noted once it has a token does not."""
    write = Sink.write

    def with_long_token(self: Sink, session: Any, frame: Any, epoch: Epoch) -> str:
        token = write(self, session, frame, epoch)
        long = token + "x" * 900
        self.store.written[long], self.store.aside[long] = self.store.written[token], self.store.aside.pop(token)
        return long

    monkeypatch.setattr(Sink, "write", with_long_token)
    with quick_kafka(properties={"message.max.bytes": "40000"}, start_timeout_s=240) as kafka:
        stage = Stage(kafka.bootstrap_servers, topic_name, monkeypatch, partitions=120)
        stage.produce(1, *range(120))
        stage.start()
        try:
            eventually(lambda: stage.offsets() == dict.fromkeys(range(120), 1), within_s=120)
        finally:
            stage.end()
        stage.store.holds(dict.fromkeys(range(120), 1))


def test_e17_begun_epoch_gets_a_number_that_the_store_does_not_have_yet(stage: Stage) -> None:
    """What a store has of an old number is anybody's to delete. Two are open where a plan came while one was."""
    for partition in (0, 1):
        stage.produce(5, partition)
    group = GroupOffsets({"bootstrap.servers": stage.bootstrap}, stage.group)
    notes = [
        EpochMetadata(partition + 1, f"begun-{partition}", 0, 3).to_text() + "\0" for partition in (0, 1)
    ]  # as librdkafka
    offsets = [GroupOffset(stage.topic, partition, 0, note) for partition, note in enumerate(notes)]
    commit_for(group, offsets)
    stage.store.newest = 7
    stage.start()
    eventually(lambda: stage.offsets() == {0: 5, 1: 5}, within_s=60)
    written = [(epoch.number, epoch.id) for epoch in stage.store.written.values()]
    assert written[:2] == [(8, "begun-0"), (9, "begun-1")]
    assert stage.store.ranges() == [(0, 0, 3), (0, 3, 5), (1, 0, 3), (1, 3, 5)]


def test_an_epoch_is_a_trace_with_its_steps_and_its_commit(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    traced, current = Traced(), []
    monkeypatch.setattr(frame_task, "tracing_of", lambda spec: traced.tracing)
    stage.store.before["write"] = lambda _: current.append(trace.get_current_span().get_span_context().span_id)
    stage.produce(5)
    stage.produce(3, 1)
    stage.start()
    spans = eventually(lambda: traced.spans if "published" in traced.names else None, within_s=60)
    eventually(lambda: f"process {stage.topic}" in traced.names, within_s=60)
    batch = traced.spans[f"process {stage.topic}"]
    assert (batch.attributes["fencepost.offsets"], batch.attributes["fencepost.outcome"]) == (
        8,
        "processed",
    )
    assert {parent_of(spans[name]) for name in ("write", "publish", "published", "commit")} == {id_of(batch)}
    assert current == [id_of(spans["write"])]  # the connector's own spans are its children
    assert spans["commit"].attributes["fencepost.outcome"] == "committed"


def test_interrupted_epoch_is_traced_as_stopped_and_its_commit_as_dropped(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    traced = Traced()
    monkeypatch.setattr(frame_task, "tracing_of", lambda spec: traced.tracing)
    stage.produce(5)
    held = stage.store.hold("write")
    task = stage.start()
    held.await_met()
    monkeypatch.setattr("fencepost.worker.host.frame.jobs.cancel_group", lambda *_: held.release())
    task.control.stop()
    task.thread.join(60)
    batch, commit = traced.spans[f"process {stage.topic}"], traced.spans["commit"]
    assert (batch.attributes["fencepost.outcome"], batch.status.is_ok) == ("stopped", True)
    assert commit.attributes["fencepost.outcome"] == "dropped"
