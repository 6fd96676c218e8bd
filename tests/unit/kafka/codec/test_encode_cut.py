"""Each row goes to its partition, in order, in batches as large as they may be."""

import itertools
from collections import defaultdict
from collections.abc import Iterator

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords

from fencepost.kafka.codec.compress import NONE, Codec
from fencepost.kafka.codec.encode import Rows, encode_batch
from fencepost.kafka.codec.encode_cut import Limits, cuts, grouped, placed, spare_partitions
from fencepost.kafka.codec.encode_header import BatchProducer, EncodedBatch
from support.batch_records import drawn_records, rows_of
from support.partitioner import partition_for
from support.slow_batch import PlainRecord

PLAIN = Codec(NONE)
ROOMY = Limits(1 << 20, 1 << 20)
Written = dict[int, list[list[PlainRecord]]]


def encoded_batches(
    rows: Rows, limits: Limits, partitions: int, spare: Iterator[int]
) -> Iterator[tuple[int, EncodedBatch]]:
    for partition, part in placed(rows, limits, partitions, spare):
        for start, stop in cuts(part, limits):
            yield partition, encode_batch(part.slice(start, stop), PLAIN)


def written(
    rows: Rows,
    limits: Limits = ROOMY,
    partitions: int = 4,
    spare: Iterator[int] | None = None,
) -> Written:
    """Return the records of each partition's batches, read by kafka-python."""
    found: Written = defaultdict(list)
    turns = spare_partitions(partitions, 0) if spare is None else spare
    for partition, batch in encoded_batches(rows, limits, partitions, turns):
        [read] = MemoryRecords(b"".join(batch.stamped(BatchProducer(), -1)))
        found[partition].append(
            [PlainRecord(record.key, record.value, record.timestamp, tuple(record.headers)) for record in read]
        )
    return found


def flat(found: Written) -> dict[int, list[PlainRecord]]:
    return {partition: list(itertools.chain.from_iterable(batches)) for partition, batches in found.items()}


def numbered(count: int, key: bytes | None = None) -> list[PlainRecord]:
    return [PlainRecord(key, b"%09d" % index, 5) for index in range(count)]


KEYS = st.one_of(st.none(), st.sampled_from((b"", b"a", b"bb", b"ccc", b"k" * 40)))


@given(keys=st.lists(KEYS, max_size=60), size=st.integers(100, 1_000))
def test_every_row_goes_to_its_partition_in_order(keys: list[bytes | None], size: int) -> None:
    records = [PlainRecord(key, b"%09d" % index, 5) for index, key in enumerate(keys)]
    found = flat(written(rows_of(records), Limits(1 << 20, size)))
    assert sorted(itertools.chain.from_iterable(found.values()), key=lambda record: record.value or b"") == records
    for partition, here in found.items():
        numbers = [int(record.value or b"") for record in here]
        assert numbers == sorted(numbers)
        assert all(key is None or partition_for(key, 4) == partition for key in map(keys.__getitem__, numbers))


@given(records=drawn_records(60), size=st.integers(100, 30_000))
def test_batch_of_several_records_stays_within_its_size_limit(records: list[PlainRecord], size: int) -> None:
    batches = list(encoded_batches(rows_of(records), Limits(1 << 20, size), 1, spare_partitions(1, 0)))
    assert sum(batch.count for _, batch in batches) == len(records)
    assert all(len(batch) <= size or batch.count == 1 for _, batch in batches)


def test_batches_are_filled_up_to_their_size_limit() -> None:
    batches = [
        batch
        for _, batch in encoded_batches(rows_of(numbered(10_000)), Limits(1 << 20, 16_384), 1, spare_partitions(1, 0))
    ]
    assert all(len(batch) > 15_000 for batch in batches[:-1])


def test_batch_stays_within_its_record_limit() -> None:
    found = written(rows_of(numbered(10)), Limits(1 << 20, 1 << 20, records=4), partitions=1)
    assert [len(batch) for batch in found[0]] == [4, 4, 2]


def test_record_larger_than_a_batch_gets_its_own_batch() -> None:
    records = [*numbered(5), PlainRecord(None, b"x" * 5_000, 5), *numbered(5)]
    found = written(rows_of(records), Limits(1 << 20, 1_000), partitions=1)
    assert [len(batch) for batch in found[0]] == [5, 1, 5]
    assert flat(found)[0] == records


def test_rows_without_a_key_move_to_the_next_partition_with_each_batch() -> None:
    found = written(rows_of(numbered(100)), Limits(1 << 20, 500), spare=spare_partitions(4, 3))
    assert set(found) == {0, 1, 2, 3}
    assert found[3][0][0].value == b"%09d" % 0
    assert found[0][0][0].value == b"%09d" % len(found[3][0])


def test_single_partition_gets_all_rows_in_order_for_any_keys() -> None:
    records = [PlainRecord(b"k" if index % 3 else None, b"%d" % index, 5) for index in range(100)]
    assert flat(written(rows_of(records), Limits(1 << 20, 500), partitions=1)) == {0: records}


def test_no_rows_make_no_batch() -> None:
    assert not written(rows_of([]))


def test_rows_without_a_partition_are_in_no_group() -> None:
    groups = grouped(pa.array([2, None, 0, 2, None, 0, 2], pa.int32()))
    assert [(partition, indices.to_pylist()) for partition, indices in groups] == [(0, [2, 5]), (2, [0, 3, 6])]
    assert not list(grouped(pa.array([], pa.int32())))
