"""The entries that a task writes to its ledger fit in records."""

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from fencepost.kafka.codec.columns import PartitionColumns
from fencepost.kafka.codec.run_digest import BLOCK
from fencepost.kafka.setting.table import DIGESTS
from fencepost.kafka.wire.cluster import Experience
from fencepost.ledger.entry import LedgerEntry
from fencepost.record import TopicPartition
from fencepost.task.channel.task_spec import CommitSpec, OutputSpec, TaskSpec
from fencepost.task.delivery.ledger import TaskLedger
from fencepost.transaction import TransactionalWriter

MOST_BYTES = 1_000_000  # a producer's, by default


def client(topic_id: int = 1, offsets: dict[TopicPartition, int] | None = None) -> Any:
    """Return what `WrittenRuns` needs of a client."""
    producer = "id", 9_000_000_000_000_000_000, 32_000
    coordinator = SimpleNamespace(sequences={}, offsets={} if offsets is None else offsets, producer=producer)
    known = {topic: (UUID(int=topic_id), {}) for topic in ("t", "t" * 249)}
    return SimpleNamespace(coordinator=coordinator, cluster=SimpleNamespace(_experience=Experience(newest=known)))


CLIENT = client()


def ledger(**conf: Any) -> TaskLedger:
    return TaskLedger(TaskSpec("c", 0, 1, "i", {}, {}, OutputSpec(conf, "offsets"), CommitSpec(ledger_topic="ledger")))


def written(records: int, partitions: range) -> TransactionalWriter:
    writer = TransactionalWriter({DIGESTS: True}, "connect-cluster-c-0")
    column = pa.array([b"v"] * records, pa.binary())
    for partition in partitions:
        assert writer.runs is not None
        writer.runs.add(TopicPartition("t" * 249, partition), PartitionColumns(column, column), CLIENT)
    return writer


@pytest.mark.parametrize(("conf", "most_bytes"), [({}, MOST_BYTES), ({"message.max.bytes": 20_000}, 20_000)])
def test_entries_of_many_partitions_are_records_that_a_producer_sends(conf: dict[str, Any], most_bytes: int) -> None:
    many = range(6_000)
    taken = ledger(**conf).take(written(1, many))
    assert taken is not None
    assert max(taken.sizes(len(taken))) < most_bytes
    entries = [LedgerEntry.of(value or b"") for value in taken.values]
    assert [entry.number for entry in entries] == [*range(len(entries))]
    assert [run.place.partition for entry in entries for run in entry.runs] == [*many]
    assert set(taken.keys or ()) == {b"c"}


@pytest.mark.parametrize(("conf", "most_bytes"), [({}, MOST_BYTES), ({"message.max.bytes": 20_000}, 20_000)])
def test_an_entry_is_due_before_a_run_is_larger_than_a_record(conf: dict[str, Any], most_bytes: int) -> None:
    each = ledger(**conf)
    writer = written(BLOCK, range(1))
    while not each.is_due(writer):
        assert writer.runs is not None
        column = pa.array([b"v"] * 10 * BLOCK, pa.binary())
        writer.runs.add(TopicPartition("t" * 249, 0), PartitionColumns(column, column), CLIENT)
    taken = each.take(writer)
    assert taken is not None
    assert len(taken) == 1
    assert most_bytes / 3 < taken.sizes(1)[0] < most_bytes


def test_numbers_of_all_entries_of_a_transaction_are_used_again_when_it_is_aborted() -> None:
    each, writer = ledger(**{"message.max.bytes": 1_000}), written(1, range(3))
    first = each.take(writer)
    assert first is not None
    assert len(first) == 3
    each.aborted(writer)
    assert writer.runs is not None
    writer.runs.add(TopicPartition("t", 0), PartitionColumns(pa.array([b"v"], pa.binary())), CLIENT)
    (value,) = (each.take(writer) or first).values
    assert LedgerEntry.of(value or b"").number == 0


def entry_after(each: TaskLedger, writer: TransactionalWriter, made: Any) -> int:
    """Let a producer queue a record, and return the offset which the run of its entry comes after."""
    assert writer.runs is not None
    writer.runs.clear()
    writer.runs.add(TopicPartition("t", 0), PartitionColumns(pa.array([b"v"], pa.binary())), made)
    taken = each.take(writer)
    assert taken is not None
    return LedgerEntry.of(taken.values[0] or b"").runs[0].after


def test_a_run_comes_after_what_any_of_the_producers_had_written_and_its_marker() -> None:
    each, first, second = ledger(), written(0, range(0)), written(0, range(0))
    place = TopicPartition("t", 0)
    assert entry_after(each, first, client()) == -1
    assert entry_after(each, first, client(offsets={place: 41})) == 42
    assert entry_after(each, second, client(offsets={place: 30})) == 42
    assert entry_after(each, second, client(offsets={place: 50})) == 51


def test_offsets_of_a_deleted_topic_bound_no_run_of_its_successor() -> None:
    each, writer = ledger(), written(0, range(0))
    place = TopicPartition("t", 0)
    assert entry_after(each, writer, client(1, {place: 41})) == 42
    assert entry_after(each, writer, client(2, {place: 41})) == -1
    assert entry_after(each, writer, client(2, {place: 3})) == 4
