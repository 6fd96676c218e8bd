"""The queue of a batch client: what it counts, and which partition records without a key go to."""

from collections.abc import Iterator
from itertools import count

import pytest

from fencepost.kafka.codec.columns import PartitionColumns, binary
from fencepost.kafka.produce.batch_records import BatchQueue
from fencepost.kafka.setting.batch_settings import BatchSettings
from fencepost.record import TopicPartition

HERE, THERE = TopicPartition("t", 0), TopicPartition("t", 1)


def queue(**conf: str) -> BatchQueue:
    given = {name.replace("_", "."): value for name, value in conf.items()}
    return BatchQueue(BatchSettings.of({"transactional.id": "id", **given}), lambda topic: None)


def records(number: int, size: int = 10) -> PartitionColumns:
    return PartitionColumns(binary([b"x" * size] * number))


def test_a_partition_is_due_when_a_batch_of_it_is_full() -> None:
    made = queue(batch_num_messages="3")
    assert made.add(HERE, records(2)) == 2
    assert (made.is_due(HERE), made.has_due) == (False, False)
    assert made.add(HERE, records(2)) == 1
    assert (made.is_due(HERE), made.has_due) == (True, True)
    assert made.take(HERE, whole=False)[0].rows == 3
    assert made.filled() == []
    assert made.seen() == [HERE]


@pytest.mark.parametrize(
    "conf", [{"queue_buffering_max_messages": "4"}, {"queue_buffering_max_kbytes": "1"}], ids=["records", "bytes"]
)
def test_queue_is_full_by_the_total_of_all_partitions(conf: dict[str, str]) -> None:
    made = queue(**conf)
    made.add(HERE, records(2, 300))
    assert not made.is_full
    made.add(THERE, records(2, 300))
    assert made.is_full
    made.take(HERE, whole=True)
    assert not made.is_full
    assert made.filled() == [THERE]
    made.clear()
    assert made.seen() == []


def test_records_for_any_partition_fill_a_batch_before_moving_to_the_next() -> None:
    made = queue()
    spare: Iterator[int] = count()
    assert made.any_partition("t", spare) == made.any_partition("t", spare) == HERE
    made.add(HERE, records(1))
    made.take(HERE, whole=True)
    assert made.any_partition("t", spare) == THERE
