"""Stream tasks on the real broker: what is read is written once, with the offsets that cover it."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from fencepost.api import RetriableError, SinkBatch
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.log_offsets import LogOffsets
from fencepost.kafka.group.group_admin import MemberRemoval
from fencepost.kafka.group.transactions import TransactionAdmin
from fencepost.kafka.produce import coordinator
from fencepost.kafka.read import doubt, group_batches
from fencepost.kafka.read.group_batches import BatchGroupInput
from fencepost.task.channel.task_spec import DeadLetterSpec
from fencepost.task.stream import runner as stream_runner
from fencepost.task.stream.transactions import StreamIntervalBoundary
from fencepost.testing import eventually
from fencepost.testing.verdict import Observation, judge
from support.clients import CLIENTS
from support.log_writer import LogWriter
from support.proxy import Action, ApiKey, KafkaProxy
from support.stream_stage import StreamStage

Make = Callable[..., StreamStage]


@pytest.fixture(params=["batches", "records"])
def make(kafka: EmbeddedKafka, topic_name: str, request: pytest.FixtureRequest) -> Iterator[Make]:
    """Makes the stage of a test, with so many partitions, whose tasks read in one of the two ways."""
    made: list[StreamStage] = []

    def stage(**partitions: int) -> StreamStage:
        by_records = request.param == "records"
        made.append(StreamStage(kafka.bootstrap_servers, topic_name, **partitions, by_records=by_records))
        return made[-1]

    yield stage
    for each in made:
        each.close()


@pytest.fixture
def stage(make: Make) -> StreamStage:
    return make()


def test_stream_writes_each_record_once_and_commits_offsets_to_its_group(stage: StreamStage) -> None:
    stage.produce(range(1_000))
    run = stage.start()
    eventually(lambda: run.runner.input)
    assert isinstance(run.runner.input, BatchGroupInput) is not stage.by_records
    assert stage.await_values(1_000) == [str(n) for n in range(1_000)]
    stage.produce(range(1_000, 1_010))
    assert stage.await_values(1_010)[1_000:] == [str(n) for n in range(1_000, 1_010)]
    eventually(lambda: stage.offsets() == {0: 1_010})
    run.stop()
    assert run.states == ["RUNNING", "RUNNING", "STOPPED"]  # the second with the first commit
    assert stage.offsets() == {0: 1_010}


@pytest.mark.parametrize("make", ["records"], indirect=True)
def test_stream_continues_at_the_cut_of_a_log_that_was_cut_while_it_was_stopped(
    stage: StreamStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The offsets were committed in its transactions with the leader epoch of what was read.

    A reader of batches sends that epoch with its fetches (`tests/chaos/test_cut_log.py`).
    """
    stage.produce(range(10))
    first = stage.start()
    eventually(lambda: stage.offsets() == {0: 10})
    first.stop()
    monkeypatch.setattr(doubt, "SURE_S", 0.2)
    monkeypatch.setattr(LogOffsets, "ends_of_epochs", lambda _, epochs, *__: dict.fromkeys(epochs, 7))
    stage.produce([10])
    stage.start()
    assert stage.await_values(14) == [str(n) for n in (*range(10), *range(7, 11))]
    eventually(lambda: stage.offsets() == {0: 11})


def test_stream_writes_each_record_of_a_recreated_topic_once(stage: StreamStage) -> None:
    """By records, the client goes on at the same offset: the records before it would never be read."""
    stage.produce(range(10))
    run = stage.start()
    eventually(lambda: stage.offsets() == {0: 10})
    with closing(LogWriter(stage.bootstrap)) as writer:
        writer.recreate(stage.source)
    stage.produce(range(100, 120))
    assert stage.await_values(30) == [str(n) for n in (*range(10), *range(100, 120))]
    eventually(lambda: stage.offsets() == {0: 20})
    run.stop()
    assert len(stage.values()) == 30


def test_partition_of_a_recreated_topic_with_the_same_end_is_committed(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker has deleted the group's offset with the former topic, and another partition's is committed."""
    monkeypatch.setattr(group_batches, "SURE_S", 0.5)
    stage = make(partitions=2)
    how = {"boundary": "interval", "boundary_interval_ms": 1_000}
    for partition in range(2):
        stage.produce(range(10), partition)
    run = stage.start(**how)
    eventually(lambda: stage.offsets() == {0: 10, 1: 10})
    with closing(LogWriter(stage.bootstrap)) as writer:
        writer.recreate(stage.source, partitions=2)
    stage.produce(range(100, 110), 0)
    stage.produce(range(100, 112), 1)
    stage.await_values(42)
    eventually(lambda: stage.offsets() == {0: 10, 1: 12})
    run.stop()
    assert len(stage.values()) == 42


def test_end_to_which_a_recreated_topic_is_reset_is_committed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `latest`: the records that are written to it while the stream is stopped would be skipped."""
    monkeypatch.setattr(group_batches, "SURE_S", 0.5)
    stage = make()
    run = stage.start(resets_to="latest")
    eventually(lambda: stage.offsets() == {0: 0})
    stage.produce(range(10))
    eventually(lambda: stage.offsets() == {0: 10})
    with closing(LogWriter(stage.bootstrap)) as writer:
        writer.recreate(stage.source)
    eventually(lambda: stage.offsets() == {0: 0})
    run.stop()
    stage.produce(range(100, 105))
    stage.start(resets_to="latest")
    assert stage.await_values(15) == [str(n) for n in (*range(10), *range(100, 105))]


def test_e19_member_of_a_past_generation_commits_neither_output_nor_offsets(stage: StreamStage) -> None:
    """Its transactional id is another one than its successor's: nobody but the group can keep it out."""
    stage.produce(range(10))
    entered, may_go_on = threading.Event(), threading.Event()
    calls: list[int] = []

    def process(task: Any, batch: SinkBatch) -> SinkBatch:
        calls.append(len(batch))
        if len(calls) == 1:
            entered.set()
            assert may_go_on.wait(60)
        return batch.to(stage.target)

    stage.scripts[stage.name] = process
    zombie = stage.start(0)
    assert entered.wait(60)
    MemberRemoval(30).remove(zombie.runner.spec.input.consumer_conf, lambda: True)
    successor = stage.start(1)
    assert stage.await_values(10) == [str(n) for n in range(10)]
    may_go_on.set()
    counters = zombie.runner.counters
    eventually(lambda: counters.commits + counters.commit_failures, within_s=60)
    assert (counters.commits, counters.commit_failures) == (0, 1)
    zombie.stop()
    assert counters.commit_failures == 1
    successor.stop()
    assert stage.values() == [str(n) for n in range(10)]
    assert stage.offsets() == {0: 10}


def test_keys_times_and_headers_are_kept_when_rows_go_to_other_topics(stage: StreamStage) -> None:
    other = f"{stage.name}-other"
    stage.admin.topics.create(other, partitions=1, replication=1)

    def process(task: Any, batch: SinkBatch) -> Any:
        even = batch.where([int(value) % 2 == 0 for value in batch.values])
        doubled = batch.select([index for index in range(len(batch)) for _ in range(2)])
        singles = [record.to(other, value=b"one by one") for record in batch]
        return [even.to(stage.target), doubled.to(other), *singles]

    stage.scripts[stage.name] = process
    yesterday = int(time.time() * 1000) - 86_400_000  # a broker deletes before long what is older than a week
    stage.produce(range(3), key=b"k", headers={"h": b"1"}, timestamp=yesterday)
    stage.start()
    assert stage.await_values(2) == ["0", "2"]
    found = stage.values(other)  # of one batch, or of several
    assert [value for value in found if value != "one by one"] == ["0", "0", "1", "1", "2", "2"]
    assert len(found) == 9
    for topic in (stage.target, other):
        first = stage.first(topic)
        assert (first.key(), first.headers(), first.timestamp()[1]) == (b"k", [("h", b"1")], yesterday)


def test_offsets_pass_filtered_records(stage: StreamStage) -> None:
    stage.scripts[stage.name] = lambda task, batch: None
    stage.produce(range(20))
    stage.start()
    eventually(lambda: stage.offsets() == {0: 20}, within_s=60)
    assert stage.values() == []


def test_all_records_of_an_interval_are_one_transaction(stage: StreamStage, monkeypatch: pytest.MonkeyPatch) -> None:
    passed_s = [0.0]
    boundary = StreamIntervalBoundary(3_600, lambda: time.monotonic() + passed_s[0])
    monkeypatch.setattr(stream_runner, "stream_boundary_of", lambda *_: boundary)
    run = stage.start()
    for number in range(3):
        stage.produce([number])
        eventually(lambda: run.runner.counters.records_written > number)  # noqa: B023
    assert (stage.values(), stage.offsets()) == ([], {})
    passed_s[0] += 3_600
    eventually(lambda: run.runner.counters.commits, within_s=60)
    assert stage.await_values(3) == ["0", "1", "2"]
    assert run.runner.counters.transaction_size_max == 3
    stage.produce([3])
    eventually(lambda: run.runner.counters.records_written == 4)
    run.stop()  # which commits what is open
    assert stage.values() == ["0", "1", "2", "3"]
    assert stage.offsets() == {0: 4}


def test_order_is_kept_with_two_lanes(stage: StreamStage) -> None:
    """A task that is never done sends one transaction while the last one is committed."""
    run = stage.start(most_records=10)
    run.runner.uses_both_lanes = True  # what it would come to by itself under load
    wanted = [str(n) for n in range(3_000)]
    stage.produce(wanted[:100])
    stage.await_values(100)  # else all may be one transaction, where the task begins late
    for start in range(100, 3_000, 100):
        stage.produce(wanted[start : start + 100])
    assert stage.await_values(3_000) == wanted
    run.stop()
    assert stage.offsets() == {0: 3_000}
    assert run.runner.counters.commits > 1


def test_failed_transaction_is_aborted_and_the_next_start_repeats_its_input(stage: StreamStage) -> None:
    def process(task: Any, batch: SinkBatch) -> SinkBatch:
        if b"poison" in batch.values and stage.scripts.get("is_strict"):
            raise ValueError("poison")
        return batch.to(stage.target)

    stage.scripts[stage.name] = process
    stage.scripts["is_strict"] = process
    stage.produce([*range(5), "poison", *range(5)])
    run = stage.start(most_records=1, boundary="interval", boundary_interval_ms=600_000)
    assert "poison" in run.trace
    assert stage.values() == []
    assert stage.offsets() == {}
    del stage.scripts["is_strict"]
    stage.start()
    assert stage.await_values(11) == ["0", "1", "2", "3", "4", "poison", "0", "1", "2", "3", "4"]


def test_batch_is_processed_again_after_a_retriable_error(stage: StreamStage) -> None:
    refusals = [RetriableError("not yet"), RetriableError("not yet")]

    def process(task: Any, batch: SinkBatch) -> SinkBatch:
        if refusals:
            raise refusals.pop()
        return batch.to(stage.target)

    stage.scripts[stage.name] = process
    stage.produce(range(10))
    run = stage.start()
    assert stage.await_values(10) == [str(n) for n in range(10)]
    assert run.runner.counters.errors.retries == 2


def test_records_returned_without_an_output_topic_are_refused(stage: StreamStage) -> None:
    stage.scripts[stage.name] = lambda task, batch: batch.where([True] * len(batch))
    stage.produce(range(3))
    assert "batch.to(topic)" in stage.start().trace


def test_paused_stream_commits_stays_in_its_group_and_writes_nothing(stage: StreamStage) -> None:
    stage.produce(range(3))
    run = stage.start(boundary="interval", boundary_interval_ms=600_000)
    eventually(lambda: run.runner.counters.records_written == 3)
    run.runner.control.pause()
    eventually(lambda: run.states[-1:] == ["PAUSED"])
    assert stage.values() == ["0", "1", "2"]
    assert stage.offsets() == {0: 3}
    stage.produce(range(3, 6))
    assert len(stage.admin.groups.describe(stage.group).members) == 1
    run.runner.control.resume()
    eventually(lambda: run.runner.counters.records_written == 6)
    run.stop()
    assert stage.values() == [str(n) for n in range(6)]


LETTERS = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.context.headers.enable": "true",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "output.transforms": "add",
    "output.transforms.add.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "output.transforms.add.static.field": "x",
    "output.transforms.add.static.value": "y",
}


def test_e15_dead_letters_of_all_stages_are_in_the_transaction_as_read(
    stage: StreamStage,
) -> None:
    dead = f"{stage.name}-dead"

    def process(task: Any, batch: SinkBatch) -> Any:
        rows = []
        for record in batch:
            if record.value == {"n": "report"}:
                task.context.report(record, ValueError("reported"))
            else:
                rows.append(record.to(stage.target))
        return rows

    stage.scripts[stage.name] = process
    refused = ["{no json", '{"n":"report"}', '"no fields"']
    stage.produce(['{"n":1}', *refused, '{"n":2}'])
    config = {**LETTERS, "errors.deadletterqueue.topic.name": dead}
    letters = DeadLetterSpec(dead, 1, headers=True)
    run = stage.start(config=config, boundary="interval", boundary_interval_ms=600_000, dead_letters=letters)
    eventually(lambda: run.runner.counters.errors.dead_letters == 3)
    assert (stage.values(), stage.values(dead)) == ([], [])
    run.stop()
    assert stage.values() == ['{"n":1,"x":"y"}', '{"n":2,"x":"y"}']
    assert sorted(stage.values(dead)) == sorted(refused)
    assert dict(stage.first(dead).headers() or [])["__connect.errors.topic"] == stage.source.encode()
    assert stage.offsets() == {0: 5}


def seen(one: Observation) -> tuple[int, int]:
    partition, number = (one.value or b"").decode().split("-")
    return int(partition), int(number)


def test_e19_output_is_exact_after_forced_rebalances(make: Make) -> None:
    """Tasks come, stop, are abandoned, and are thrown out of the group while they write."""
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    chance = random.Random(seed)
    stage = make(partitions=6)
    removal = MemberRemoval(30)
    running = {task: stage.start(task, most_records=20) for task in range(3)}
    written = 0

    def feed(count: int) -> int:
        for partition in range(6):
            stage.produce([f"{partition}-{n}" for n in range(written, written + count)], partition)
        return written + count

    def change(task: int) -> None:
        how = chance.choice(("stop", "remove", "replace", "abandon"))
        run = running[task]
        if how == "remove":
            removal.remove(run.runner.spec.input.consumer_conf, lambda: True)
            return
        if how == "stop":
            run.stop()
        elif how == "abandon":
            run.runner.abandon()
        running[task] = stage.start(task, most_records=20)  # "replace": its predecessor does not know of it

    for _ in range(6):
        # Before it is fed: a fast task writes meanwhile.
        seen_before = sum(run.runner.counters.records_written for run in stage.runs)
        written = feed(100)
        eventually(lambda: sum(run.runner.counters.records_written for run in stage.runs) > seen_before, within_s=60)  # noqa: B023
        change(chance.randrange(3))
    written = feed(100)
    eventually(lambda: stage.offsets() == dict.fromkeys(range(6), written), within_s=120)
    for run in stage.runs:
        run.stop()
    verdict = judge({p: range(written) for p in range(6)}, stage.written(), sighting=seen)
    assert verdict.is_clean, f"seed {seed}: {verdict}"


def test_a_hundred_partitions_have_two_producers(make: Make) -> None:
    stage = make(partitions=100)
    run = stage.start()
    for partition in range(100):
        stage.produce(range(3), partition)
    assert len(stage.await_values(300)) == 300
    eventually(lambda: stage.offsets() == dict.fromkeys(range(100), 3))
    run.stop()
    admin = TransactionAdmin({"bootstrap.servers": stage.bootstrap})
    own = [t.transactional_id for t in admin.list() if stage.name in t.transactional_id]
    admin.close()
    assert sorted(own) == [f"g-{stage.name}-0", f"g-{stage.name}-0#1"]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_topic_deleted_before_its_commit_is_reported_soon_and_delays_no_other(
    stage: StreamStage, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "_MOVING_S", 2.0)  # how long the batch client waits for what may be on its way
    other = f"{stage.name}-other"
    stage.admin.topics.create(other, partitions=1, replication=1)
    entered, is_deleted = threading.Event(), threading.Event()

    def process(task: Any, batch: SinkBatch) -> SinkBatch:
        entered.set()
        assert is_deleted.wait(60)
        return batch.to(stage.target)

    stage.scripts[stage.name] = process
    stage.produce(["gone"])
    run = stage.start(config={"topics": f"{stage.source},{other}"}, topics=(stage.source, other), client=client)
    assert entered.wait(60)
    stage.admin.topics.delete([stage.source])
    eventually(lambda: not stage.admin.topics.get_all([stage.source]), within_s=60)
    stage.produce(["stays"], topic=other)
    is_deleted.set()
    assert stage.await_values(1, within_s=40) == ["stays"]  # a client of its own would ask on and on, for 50 s
    assert "FAILED" not in run.states
    run.stop()


@pytest.mark.parametrize("action", [Action.ANSWER_LOST, Action.HOLD_AND_RESET])
def test_e6_output_is_exact_after_lost_or_late_requests(stage: StreamStage, action: Action) -> None:
    """Their producer is replaced (E5); whether an unknown commit happened is what the group says then."""
    wanted: list[str] = []

    def more() -> list[str]:
        added = [str(n) for n in range(len(wanted), len(wanted) + 10)]
        stage.produce(added)
        return wanted + added

    with KafkaProxy(stage.bootstrap) as proxy:
        run = stage.start(via=proxy.bootstrap_servers)
        for api in (ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.PRODUCE):
            wanted = more()
            assert stage.await_values(len(wanted)) == wanted
            rule = proxy.on(api, action)
            wanted = more()
            rule.await_met(within_s=60)
            assert stage.await_values(len(wanted)) == wanted
            rule.release()
        wanted = more()
        assert stage.await_values(len(wanted)) == wanted
        assert run.runner.counters.producers_retired >= 4
        run.stop()
    assert stage.values() == wanted
    assert stage.offsets() == {0: len(wanted)}
