"""A batch and the decision about it on a real broker: committed together once, whatever fails in between."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fencepost.api import FatalError
from fencepost.config import ConfigError
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.group.memberless import read_stable
from fencepost.kafka.group.transactions import TransactionAdmin
from fencepost.kafka.produce.batch_client import BatchClient
from fencepost.kafka.produce.transactional_client import Failure, ProducerError
from fencepost.kafka.read.log import LogReader
from fencepost.kafka.value.position import GroupOffset, LogRange
from fencepost.kafka.wire.requests import Targets
from fencepost.record import TopicPartition
from fencepost.spark.row.columns import RecordMaker
from fencepost.spark.write import decision as deciding
from fencepost.spark.write import stream as streaming
from fencepost.spark.write.checkpoint import DECIDED
from fencepost.spark.write.committer import (
    BatchTooLargeError,
    Committer,
    Kept,
    PendingBatch,
    TopicChangedError,
    commit_batch,
)
from fencepost.spark.write.decision import (
    DecidedOtherwiseError,
    Decision,
    DecisionTopic,
    MissingDecisionError,
    newest_decision,
    transactional_id,
)
from fencepost.spark.write.encode import Encoder, PlacedBatch
from fencepost.spark.write.folder import Folder
from fencepost.spark.write.options import WriterConfig
from fencepost.spark.write.staging import Staged, stage
from fencepost.spark.write.stream import KafkaStreamWriter
from fencepost.testing import eventually
from support.log_writer import LogWriter
from support.partitioner import partition_for


class Stage:
    """A write to a topic of two partitions, with a topic of decisions of its own."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap, self.topic, self.key = bootstrap, topic, f"query-{topic}"
        self.admin = Admin({"bootstrap.servers": bootstrap})
        self.options = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "offsets.topic": f"{topic}-decisions"}
        self.kept: Kept = {}

    def config(self, **options: str) -> WriterConfig:
        return WriterConfig.of(self.options | {key.replace("_", "."): value for key, value in options.items()})

    def staged(self, first: int, number: int = 100, **options: str) -> Staged:
        """Return what a task with these numbers hands over."""
        targets = Targets({"bootstrap.servers": self.bootstrap})
        values = [str(n) for n in range(first, first + number)]
        rows = pa.record_batch({"key": [value[-1] for value in values], "value": values})
        encoder = Encoder(RecordMaker(["key", "value"], self.topic), targets.get, _producer(options), first=0)
        try:
            return stage(encoder, [rows], Folder("/none"))
        finally:
            targets.close()

    def commit(self, number: int, *, digest: str = "", offsets: Any = (), **options: str) -> bool:
        """Commit the batch with this number: a hundred records, from a hundred times the number on."""
        batch = PendingBatch(self.key, number, digest, offsets)
        return commit_batch(self.config(**options), batch, [self.staged(100 * number)], self.kept)

    def values(self, *, read_committed: bool = True) -> list[int]:
        found: list[int] = []
        reader = LogReader({"bootstrap.servers": self.bootstrap}, self.topic, read_committed=read_committed)
        reader.read_to_end(60, lambda record: found.append(int(record.value or b"")))
        reader.close()
        return sorted(found)

    def end(self) -> None:
        while self.kept:
            self.kept.popitem()[1].close()


def _producer(options: dict[str, str]) -> dict[str, str]:
    return {key.removeprefix("kafka_").replace("_", "."): value for key, value in options.items()}


@pytest.fixture
def write(kafka: EmbeddedKafka, topic: str) -> Iterator[Stage]:
    made = Stage(kafka.bootstrap_servers, topic)
    yield made
    made.end()


def test_batches_are_written_once_and_skipped_when_they_come_again(write: Stage) -> None:
    assert [write.commit(0), write.commit(1)] == [True, True]
    write.end()
    assert write.commit(1) is False
    assert write.commit(2) is True
    assert write.values() == list(range(300))
    assert newest_decision(write.key, write.options) == Decision(2, "", 100)


def test_kept_producer_takes_its_id_once(write: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = _counted(monkeypatch, "init_transactions")
    for number in range(4):
        write.commit(number)
    assert len(taken) == 1


def test_kept_producer_is_replaced_when_another_process_has_decided(write: Stage) -> None:
    """Processes that commit are shared by queries, and a query may change to another one and back."""
    other = Stage(write.bootstrap, write.topic)
    write.commit(0)
    other.commit(1)
    assert write.commit(2) is True
    other.commit(3)
    other.end()
    assert write.values() == list(range(400))


@pytest.mark.parametrize("is_sent", [False, True])
@pytest.mark.parametrize("failure", [Failure.PASSING, Failure.FENCED])
@pytest.mark.parametrize("step", ["init_transactions", "produce_encoded", "flush", "produce", "commit"])
def test_batch_is_written_once_when_any_step_fails(
    write: Stage, monkeypatch: pytest.MonkeyPatch, step: str, failure: Failure, is_sent: bool
) -> None:
    """Before the step was carried out, or after that: the answer was lost. A lost end is found by its decision."""
    write.commit(0)
    write.end()
    _fail_once(monkeypatch, step, ProducerError(failure, "lost"), is_sent=is_sent)
    is_found = step == "commit" and is_sent
    assert write.commit(1) is not is_found
    assert write.commit(2) is True
    assert write.values() == list(range(300))


def test_batch_that_fails_twice_is_refused_and_can_be_run_again(write: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(BatchClient, "commit", _raising(ProducerError(Failure.PASSING, "no answer")))
        with pytest.raises(FatalError, match=rf"batch 0 .* {transactional_id(write.key)}: no answer. Run it again"):
            write.commit(0)
    assert write.commit(0) is True
    assert write.values() == list(range(100))


def test_refusal_that_stays_is_not_tried_again(write: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = _counted(monkeypatch, "init_transactions")
    monkeypatch.setattr(BatchClient, "commit", _raising(ProducerError(Failure.DENIED, "not allowed")))
    with pytest.raises(FatalError, match="not allowed"):
        write.commit(0)
    assert len(taken) == 1


def test_predecessor_cannot_commit_once_the_decision_is_read(write: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The predecessor has sent everything but its decision, and goes on once its successor has read."""
    ends: list[Callable[[], None]] = []
    produce = BatchClient.produce

    def hold(client: BatchClient, *args: Any, **named: Any) -> None:
        client.flush(30)

        def go_on() -> None:
            produce(client, *args, **named)
            client.commit(30)

        ends.append(go_on)
        raise KeyboardInterrupt

    predecessor = Committer(write.config(), write.key)
    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(BatchClient, "produce", hold)
        predecessor.commit(PendingBatch(write.key, 0), [write.staged(0)])
    newest = DecisionTopic.newest

    def read(topic: DecisionTopic, key: str) -> Decision | None:
        found = newest(topic, key)
        with pytest.raises(ProducerError):
            ends[0]()
        return found

    monkeypatch.setattr(DecisionTopic, "newest", read)
    assert write.commit(0) is True
    predecessor.close()
    assert write.values() == list(range(100))
    assert len(write.values(read_committed=False)) == 200


def test_batch_with_another_digest_is_refused_and_nothing_is_written(write: Stage) -> None:
    write.commit(0, digest="a")
    for number, digest in ((0, "b"), (0, "")):
        write.end()
        with pytest.raises(DecidedOtherwiseError, match="batch 0 is not written"):
            write.commit(number, digest=digest)
    assert write.values() == list(range(100))


def test_decision_is_found_in_a_topic_of_decisions_that_has_grown(write: Stage) -> None:
    write.commit(0)
    write.end()
    assert write.admin.topics.add_partitions({write.options["offsets.topic"]: 64}) == {}
    assert write.commit(0) is False
    assert write.commit(1) is True
    write.end()
    assert write.commit(1) is False
    assert write.values() == list(range(200))


def test_decision_stays_in_its_partition_when_the_topic_of_decisions_grows(write: Stage, log_writer: LogWriter) -> None:
    """Otherwise an older decision could be where the newest one is looked for."""
    log_writer.topic(write.options["offsets.topic"], 1, cleanup_policy="compact")
    keys = (f"{write.key}-{n}" for n in count())
    write.key = next(key for key in keys if [_hashed(key, of) for of in (2, 3)] == [1, 0])
    for number, partitions in enumerate((2, 3)):
        assert write.commit(number) is True
        write.end()
        assert write.admin.topics.add_partitions({write.options["offsets.topic"]: partitions}) == {}
    assert write.commit(1) is False
    assert write.values() == list(range(200))


def _hashed(key: str, partitions: int) -> int:
    return partition_for(Decision(0, "").record(key)[0], partitions)


def test_decision_is_found_before_many_others(
    write: Stage, log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deciding, "_TAIL", 2)
    log_writer.topic(write.options["offsets.topic"], cleanup_policy="compact")
    write.commit(0)
    write.end()
    for n in range(50):
        key, value = Decision(n, "").record(f"other-{n}")
        log_writer.send(write.options["offsets.topic"], [value or b""], key=key)
    assert write.commit(0) is False


@pytest.mark.parametrize("is_new", [True, False])
def test_decisions_that_were_looked_through_are_not_read_again(
    write: Stage, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    assert [write.commit(0), write.commit(1)] == [True, True]
    with closing(DecisionTopic(write.config())) as topic:
        if is_new:
            topic.pass_over()
        else:
            assert topic.newest("rerun") is None
    read: list[LogRange] = []
    values = DecisionTopic._values
    monkeypatch.setattr(
        DecisionTopic, "_values", lambda self, wanted, key: read.append(wanted) or values(self, wanted, key)
    )
    batch = PendingBatch("rerun", 0, after=topic.ends)
    assert commit_batch(write.config(), batch, [write.staged(200)], write.kept) is True
    assert read == []
    write.end()
    assert commit_batch(write.config(), batch, [write.staged(200)], write.kept) is False
    assert [each.start >= topic.ends[each.place.partition] for each in read] == [True]
    assert write.values() == list(range(300))


def test_transaction_without_a_driver_does_not_block_the_decisions(
    write: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deciding, "_SUSPICIOUS_S", 0.2)
    write.commit(0)
    conf = {"bootstrap.servers": write.bootstrap, "transaction.timeout.ms": 900_000}
    killed = BatchClient({**conf, "transactional.id": transactional_id(f"killed-{write.topic}")})
    killed.init_transactions(30)
    killed.begin()
    for partition in range(8):
        killed.produce(write.options["offsets.topic"], b"{}", key=b"k", partition=partition)
    killed.flush(30)
    write.end()
    assert write.commit(1) is True
    with pytest.raises(ProducerError):
        killed.commit(30)
    assert write.values() == list(range(200))


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_topic_of_decisions_with_retention_is_refused(write: Stage, policy: str) -> None:
    """Retention would take the decisions, and a batch that is run again would be written again."""
    decisions = write.options["offsets.topic"]
    write.admin.topics.create(decisions, partitions=1, replication=1, configs={"cleanup.policy": policy})
    with pytest.raises(ConfigError, match=rf"'offsets.topic' property .*'cleanup.policy={policy}'"):
        write.commit(0)


def test_topic_that_is_created_again_is_refused_and_one_that_grows_is_not(write: Stage, log_writer: LogWriter) -> None:
    staged = write.staged(0)
    write.admin.topics.add_partitions({write.topic: 3})
    assert commit_batch(write.config(), PendingBatch(write.key, 0), [staged], write.kept) is True
    log_writer.recreate(write.topic, 2)
    with pytest.raises(TopicChangedError, match=f"topic {write.topic} was deleted and created again since"):
        commit_batch(write.config(), PendingBatch(write.key, 1), [staged], write.kept)
    assert write.commit(1) is True
    assert write.values() == list(range(100, 200))


def test_batch_that_outlasts_its_transaction_twice_names_the_cure(write: Stage) -> None:
    options = {"kafka_transaction_timeout_ms": "1000", "kafka_batch_size": "200"}
    staged = _Slow(**vars(write.staged(0, **options)))
    staged.wait = lambda: eventually(lambda: _state(write) == "CompleteAbort", within_s=60)
    with pytest.raises(BatchTooLargeError, match=r"batch 0 has .* 1 s, twice: .*maxOffsetsPerTrigger"):
        commit_batch(write.config(**options), PendingBatch(write.key, 0), [staged], write.kept)
    assert write.commit(0) is True
    assert write.values() == list(range(100))


class _Slow(Staged):
    """Output whose second half is only read once the transaction has timed out."""

    wait: Callable[[], object]

    def batches(self) -> Iterator[PlacedBatch]:
        batches = [*super().batches()]
        yield from batches[: len(batches) // 2]
        self.wait()
        yield from batches[len(batches) // 2 :]


def _state(write: Stage) -> str:
    admin = TransactionAdmin({"bootstrap.servers": write.bootstrap})
    (found,) = admin.describe([transactional_id(write.key)]).values()
    admin.close()
    return found.state


@pytest.mark.parametrize("step", [None, "commit"])
def test_offsets_of_a_group_are_committed_with_the_batch(
    write: Stage, monkeypatch: pytest.MonkeyPatch, step: str | None
) -> None:
    group = f"group-{write.topic}"
    if step is not None:
        _fail_once(monkeypatch, step, ProducerError(Failure.PASSING, "lost"), is_sent=False)
    for number in range(2):
        write.commit(number, offsets=[GroupOffset(write.topic, 0, 40 + number)], commit_group=group)
    found = read_stable({"bootstrap.servers": write.bootstrap}, group, 30)
    assert {place: committed.offset for place, committed in found.items()} == {TopicPartition(write.topic, 0): 41}
    assert write.values() == list(range(200))


class Query:
    """A query with a checkpoint, whose micro-batches are committed as Spark's process for that does."""

    def __init__(self, write: Stage, folder: Path) -> None:
        self._write, self._folder = write, folder
        self.note = folder / DECIDED
        (folder / "offsets").mkdir()
        (folder / "metadata").write_text(json.dumps({"id": write.key}))

    def commit(self, number: int, *, is_gapless: bool = True, **options: str) -> None:
        """Commit a micro-batch, in a process that has committed none before."""
        (self._folder / "offsets" / str(number)).write_text(f"v1\n{{}}\n{number}\n")
        given = self._write.options | {"checkpointlocation": str(self._folder)}
        given |= {key.replace("_", "."): value for key, value in options.items()}
        writer = KafkaStreamWriter(given, ["key", "value"], is_gapless=is_gapless)
        try:
            writer.commit([self._write.staged(100 * number)], number)
        finally:
            while streaming._committers:
                streaming._committers.popitem()[1].close()


def test_batch_is_refused_when_the_decisions_before_it_are_lost(write: Stage, tmp_path: Path) -> None:
    """It may be in Kafka already. The error says how to write it nevertheless."""
    query, other = Query(write, tmp_path), f"{write.topic}-other"
    query.commit(0)
    query.commit(1)
    with pytest.raises(MissingDecisionError, match=f"batch 2 .*: topic {other} has no decision .* remove {DECIDED}"):
        query.commit(2, offsets_topic=other)
    query.note.unlink()
    query.commit(2, offsets_topic=other)
    with pytest.raises(
        MissingDecisionError, match=f"batch 3 .*: topic {write.topic}-decisions has batch 1 as the newest"
    ):
        query.commit(3)
    query.commit(3, offsets_topic=other)
    assert write.values() == list(range(400))


def test_query_of_another_sink_goes_on_and_foreach_batch_may_skip_batches(write: Stage, tmp_path: Path) -> None:
    query = Query(write, tmp_path)
    query.commit(3)
    query.commit(5, is_gapless=False)
    query.commit(5, is_gapless=False)
    with pytest.raises(MissingDecisionError, match="has no decision about this query"):
        query.commit(7, is_gapless=False, offsets_topic=f"{write.topic}-other")
    assert write.values() == [*range(300, 400), *range(500, 600)]


def _counted(monkeypatch: pytest.MonkeyPatch, step: str) -> list[None]:
    calls: list[None] = []
    real = getattr(BatchClient, step)

    def count(*args: Any, **named: Any) -> Any:
        calls.append(None)
        return real(*args, **named)

    monkeypatch.setattr(BatchClient, step, count)
    return calls


def _fail_once(monkeypatch: pytest.MonkeyPatch, step: str, error: ProducerError, *, is_sent: bool) -> None:
    real = getattr(BatchClient, step)
    errors = [error]

    def fail(*args: Any, **named: Any) -> Any:
        if not errors:
            return real(*args, **named)
        if is_sent:
            real(*args, **named)
        raise errors.pop()

    monkeypatch.setattr(BatchClient, step, fail)


def _raising(error: ProducerError) -> Callable[..., None]:
    def fail(*args: object, **named: object) -> None:
        raise error

    return fail
