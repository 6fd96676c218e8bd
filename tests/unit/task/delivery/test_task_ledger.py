"""The entries that a task writes to its ledger fit in records."""

import itertools
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from confluent_kafka import murmur2

from fencepost.kafka.codec.columns import PartitionColumns
from fencepost.kafka.codec.run_digest import BLOCK
from fencepost.kafka.setting.table import DIGESTS
from fencepost.kafka.wire.experience import TopicView
from fencepost.ledger.carried import carried_key
from fencepost.ledger.entry import LedgerEntry, LedgerRecord
from fencepost.record import TopicPartition
from fencepost.task.channel.task_spec import CommitSpec, OutputSpec, TaskSpec
from fencepost.task.delivery.ledger import CarryLimits, TaskLedger
from fencepost.task.delivery.outgoing import OutgoingColumns
from fencepost.transaction import TransactionalWriter

MOST_BYTES = 1_000_000  # a producer's, by default
PARTITIONS = 8  # of the offsets topic


TOPICS = "t", "t" * 249


def client(topic_id: int = 1, offsets: dict[TopicPartition, int] | None = None, topics: Sequence[str] = TOPICS) -> Any:
    """Return what `WrittenRuns` needs of a client."""
    producer = "id", 9_000_000_000_000_000_000, 32_000
    coordinator = SimpleNamespace(sequences={}, offsets={} if offsets is None else offsets, producer=producer)
    known = {topic: SimpleNamespace(view=TopicView(UUID(int=topic_id), {})) for topic in topics}
    known.setdefault("offsets", SimpleNamespace(view=TopicView(None, {}))).leaders = [1] * PARTITIONS
    cluster = SimpleNamespace(_topics=known)
    return SimpleNamespace(coordinator=coordinator, cluster=cluster)


CLIENT = client()


class Clock:
    """A clock that is set by hand."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def ledger(limits: CarryLimits | None = None, clock: Clock | None = None, **conf: Any) -> TaskLedger:
    spec = TaskSpec("c", 0, 1, "i", {}, {}, OutputSpec(conf, "offsets"), CommitSpec(ledger_topic="ledger"))
    return TaskLedger(spec, limits, clock or Clock())


def entries_of(taken: OutgoingColumns | None) -> list[LedgerEntry]:
    """Return the entries of all records."""
    assert taken is not None
    return [entry for value in taken.values if value is not None for entry in LedgerRecord.of(value).entries]


def written(records: int, partitions: range) -> TransactionalWriter:
    writer = TransactionalWriter({DIGESTS: ("ledger", "offsets")}, "connect-cluster-c-0")
    column = pa.array([b"v"] * records, pa.binary())
    for partition in partitions:
        assert writer.runs is not None
        writer.runs.add(TopicPartition("t" * 249, partition), PartitionColumns(column, column), CLIENT)
    return writer


@pytest.mark.parametrize(("conf", "most_bytes"), [({}, MOST_BYTES), ({"message.max.bytes": 20_000}, 20_000)])
def test_entries_of_many_partitions_fit_into_records_of_the_producer(conf: dict[str, Any], most_bytes: int) -> None:
    many = range(6_000)
    taken = ledger(**conf).take(written(1, many))
    assert taken is not None
    assert max(taken.sizes(len(taken))) < most_bytes
    entries = entries_of(taken)
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


def test_record_of_carried_entries_does_not_name_the_topics_of_new_ones() -> None:
    many = [f"{number:039}" for number in range(16_000)]
    each, writer, made = ledger(), written(0, range(0)), client(topics=("t", *many))
    committed(each, writer)
    committed(each, writer)
    assert writer.runs is not None
    writer.runs.clear()
    for topic in many:
        writer.runs.add(TopicPartition(topic, 0), PartitionColumns(pa.array([b"v"], pa.binary())), made)
    taken = each.take(writer)
    assert taken is not None
    assert max(taken.sizes(len(taken))) < MOST_BYTES
    found = numbers(taken)
    assert found == [*range(1, len(found) + 1)]
    assert places(taken)[-1] == ("offsets", 3, True)


def test_entry_numbers_of_an_aborted_transaction_are_used_again() -> None:
    each, writer = ledger(**{"message.max.bytes": 1_000}), written(1, range(3))
    first = each.take(writer)
    assert first is not None
    assert len(first) == 3
    each.aborted(writer)
    assert writer.runs is not None
    writer.runs.add(TopicPartition("t", 0), PartitionColumns(pa.array([b"v"], pa.binary())), CLIENT)
    (entry,) = entries_of(each.take(writer))
    assert entry.number == 0


def entry_after(each: TaskLedger, writer: TransactionalWriter, made: Any) -> int:
    """Let a producer queue a record, and return the offset which the run of its entry comes after."""
    assert writer.runs is not None
    writer.runs.clear()
    writer.runs.add(TopicPartition("t", 0), PartitionColumns(pa.array([b"v"], pa.binary())), made)
    return entries_of(each.take(writer))[0].runs[0].after


def test_run_begins_after_the_offsets_and_markers_of_all_producers() -> None:
    each, first, second = ledger(), written(0, range(0)), written(0, range(0))
    place = TopicPartition("t", 0)
    assert entry_after(each, first, client()) == -1
    assert entry_after(each, first, client(offsets={place: 41})) == 42
    assert entry_after(each, second, client(offsets={place: 30})) == 42
    assert entry_after(each, second, client(offsets={place: 50})) == 51


def test_offsets_of_a_deleted_topic_do_not_limit_runs_of_its_successor() -> None:
    each, writer = ledger(), written(0, range(0))
    place = TopicPartition("t", 0)
    assert entry_after(each, writer, client(1, {place: 41})) == 42
    assert entry_after(each, writer, client(2, {place: 41})) == -1
    assert entry_after(each, writer, client(2, {place: 3})) == 4


def transaction(each: TaskLedger, writer: TransactionalWriter, offsets: int | None = 3) -> OutgoingColumns:
    """Let a producer queue a record, and add an offset for this partition of its topic. Returns what follows that."""
    assert writer.runs is not None
    writer.runs.clear()
    column = PartitionColumns(pa.array([b"v"], pa.binary()))
    writer.runs.add(TopicPartition("t", 0), column, CLIENT)
    records = [] if offsets is None else [(key_in(offsets), b"{}")]
    taken = each.end(writer, records)
    writer.runs.add(TopicPartition("offsets", 0), column, CLIENT)  # from now on the number of its partitions is known
    assert taken is not None
    assert [*taken.topics[: len(records)]] == ["offsets"] * len(records)
    return taken.slice(len(records), len(taken))


def key_in(partition: int) -> bytes:
    """Return the key of a source offset that goes to this partition."""
    keys = (b'["c",{"n":%d}]' % number for number in itertools.count())
    return next(key for key in keys if murmur2(key, PARTITIONS) == partition)


def committed(each: TaskLedger, writer: TransactionalWriter, offsets: int | None = 3) -> OutgoingColumns:
    taken = transaction(each, writer, offsets)
    each.handed_over(writer)
    return taken


def test_carried_entries_fit_into_a_small_record_of_the_producer() -> None:
    each, writer = ledger(**{"message.max.bytes": 1_000}), written(1, range(1))
    for _ in range(16):
        taken = committed(each, writer)
        assert max(taken.sizes(len(taken))) < 1_000


def numbers(taken: OutgoingColumns) -> list[int]:
    return [entry.number for entry in entries_of(taken)]


def places(taken: OutgoingColumns) -> list[tuple[str, int | None, bool]]:
    """Return the topic and the partition of each record, and whether it is a tombstone."""
    partitions = taken.partitions or [None] * len(taken)
    return [(*each, v is None) for *each, v in zip(taken.topics, partitions, taken.values, strict=True)]


def test_entry_is_carried_with_earlier_ones_in_the_partition_of_its_offsets() -> None:
    each, writer = ledger(), written(0, range(0))
    assert places(committed(each, writer)) == [("ledger", None, False)]
    committed(each, writer)
    third = committed(each, writer, 5)
    assert places(third) == [("offsets", 5, False)]
    assert list(third.keys or ()) == [carried_key("c", 0, "ledger")]
    assert numbers(third) == [1, 2]


def test_carried_entries_move_to_the_ledger_and_leave_tombstones() -> None:
    clock = Clock()
    each, writer = ledger(clock=clock), written(0, range(0))
    for partition in (3, 3, 5):
        committed(each, writer, partition)
    clock.now_s = 1.0
    last = committed(each, writer)
    assert places(last) == [("ledger", None, False), ("offsets", 3, True), ("offsets", 5, True)]
    assert numbers(last) == [1, 2, 3]
    assert numbers(committed(each, writer)) == [4]


@pytest.mark.parametrize("limits", [CarryLimits(entries=2), CarryLimits(size_bytes=500), CarryLimits(time_s=0)])
def test_carried_entries_respect_the_limits(limits: CarryLimits) -> None:
    each, writer = ledger(limits), written(0, range(0))
    taken = [committed(each, writer) for _ in range(9)]
    carried = [one for one in taken if one.topics[0] == "offsets"]
    assert all(len(entries_of(one)) <= limits.entries for one in carried)
    assert all(len(one.values[0] or b"") <= limits.size_bytes for one in carried)
    in_ledger = [number for one in taken if one.topics[0] == "ledger" for number in numbers(one)]
    assert in_ledger == [*range(len(in_ledger))]
    assert len(in_ledger) >= 7


def test_transaction_without_offsets_carries_no_entries() -> None:
    each, writer = ledger(), written(0, range(0))
    for _ in range(3):
        assert places(committed(each, writer, None)) == [("ledger", None, False)]


def test_entries_carried_by_an_aborted_transaction_are_dropped() -> None:
    clock = Clock()
    each, writer = ledger(clock=clock), written(0, range(0))
    committed(each, writer)
    committed(each, writer)
    transaction(each, writer, 5)
    each.aborted(writer)
    assert numbers(committed(each, writer)) == [1, 2]
    clock.now_s = 1.0
    for _ in range(2):
        last = transaction(each, writer)
        each.aborted(writer)
        assert numbers(last) == [1, 2, 3]
        assert places(last)[1:] == [("offsets", 3, True)]


def test_first_committed_transaction_of_a_start_writes_to_the_ledger() -> None:
    each, writer = ledger(), written(0, range(0))
    for _ in range(2):
        transaction(each, writer)
        each.aborted(writer)
    assert places(committed(each, writer)) == [("ledger", None, False)]
    assert places(committed(each, writer)) == [("offsets", 3, False)]


def test_two_producers_carry_the_entries_of_both() -> None:
    each, first, second = ledger(), written(0, range(0)), written(0, range(0))
    committed(each, first)
    committed(each, first)
    assert numbers(committed(each, second)) == [1, 0]


def test_next_start_writes_carried_entries_to_the_ledger() -> None:
    before, after, writer = ledger(), ledger(), written(0, range(0))
    committed(before, writer)
    carried = [(partition, committed(before, writer, partition).values[0] or b"") for partition in (4, 5)]
    after.inherit(carried)
    taken = committed(after, written(0, range(0)))
    assert [entry.number for entry in entries_of(taken)] == [1, 2, 0]
    assert places(taken) == [("ledger", None, False), ("offsets", 4, True), ("offsets", 5, True)]
    assert numbers(committed(after, writer)) == [0]


def test_next_start_takes_all_carried_entries_even_from_an_old_value() -> None:
    """Its reader has missed the tombstone of partition 4."""
    clock = Clock()
    before, after, writer = ledger(clock=clock), ledger(), written(0, range(0))
    *_, old = [committed(before, writer, 4) for _ in range(3)]
    clock.now_s = 1.0
    assert places(committed(before, writer, 4)) == [("ledger", None, False), ("offsets", 4, True)]
    new = committed(before, writer, 5)
    after.inherit([(4, old.values[0] or b""), (5, new.values[0] or b"")])
    taken = committed(after, written(0, range(0)))
    assert sorted(numbers(taken)) == [0, 1, 2, 4]
    assert places(taken)[1:] == [("offsets", 4, True), ("offsets", 5, True)]


def test_unreadable_carried_record_does_not_keep_a_task_from_starting(caplog: pytest.LogCaptureFixture) -> None:
    each = ledger()
    each.inherit([(2, b'{"version":9}')])
    assert "carried" in caplog.text
    assert places(committed(each, written(0, range(0)))) == [("ledger", None, False), ("offsets", 2, True)]
