"""Records that wait to become a batch: as many as fit, in order, nothing lost between two."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from fencepost.kafka.codec.columns import PartitionColumns, Pending, binary, encode_columns
from fencepost.kafka.codec.run_digest import RunDigest
from fencepost.record import HeaderBytes, Repeated

Headers = Sequence[HeaderBytes]
VALUES = st.none() | st.binary(max_size=12)
RECORDS = st.lists(st.tuples(VALUES, VALUES, st.integers(0, 3), st.lists(st.tuples(st.just("h"), VALUES), max_size=2)))


def columns(records: list[tuple[Any, ...]]) -> PartitionColumns:
    values, keys, times, headers = ([record[column] for record in records] for column in range(4))
    return PartitionColumns(
        binary(values),
        binary(keys) if any(key is not None for key in keys) else None,
        times[0] if len(set(times)) == 1 else pa.array(times, pa.int64()),
        headers if any(headers) else None,
    )


def records_of(found: PartitionColumns) -> list[tuple[Any, ...]]:
    values = found.values.to_pylist()
    keys = [None] * len(values) if found.keys is None else found.keys.to_pylist()
    headers = [[]] * len(values) if found.headers is None else [list(each) for each in found.headers]
    return [(v, k, found.timestamp(n), h) for n, (v, k, h) in enumerate(zip(values, keys, headers, strict=True))]


def encoded(found: PartitionColumns) -> bytes:
    who = {"producer_id": 1, "producer_epoch": 1, "base_sequence": 0}
    return bytes(encode_columns(found, **who, transactional=True, compression="none")[0])


def encoded_bytes(found: PartitionColumns) -> int:
    return len(encoded(found))


@given(st.lists(RECORDS.filter(bool)), st.integers(1, 400), st.integers(1, 5))
def test_batches_hold_all_records_in_order_within_their_size_limit(pieces, most_bytes, most_records):
    pending, batches = Pending(most_bytes, most_records), []
    for piece in pieces:
        left = columns(piece)
        while len(left.values):
            taken = pending.add(left)
            left = left.part(taken, len(left.values))
            if pending.is_full or len(left.values):
                batches.append(pending.take())
    if pending.count:
        batches.append(pending.take())
    assert [record for batch in batches for record in records_of(batch)] == [
        record for piece in pieces for record in piece
    ]
    for batch in batches:
        assert 1 <= len(batch.values) <= most_records
        assert len(batch.values) == 1 or encoded_bytes(batch) <= most_bytes


@given(
    st.lists(
        st.tuples(st.lists(VALUES, min_size=1, max_size=6), st.sampled_from([(), (("h", b"1"),), (("h", None),)]))
    ),
    st.integers(1, 400),
)
def test_shared_headers_make_the_same_batches_as_separate_headers(pieces, most_bytes):
    """The records of a poll have the context of one span."""

    def batches(of: Callable[[Headers, int], Sequence[Headers]]) -> list[tuple[Any, ...]]:
        pending, found = Pending(most_bytes, 5), []

        def end() -> None:
            size, batch, digest = pending.size_bytes, pending.take(), RunDigest()
            digest.add(batch)
            found.append((size, batch.own_bytes(), encoded(batch), digest.digest()))

        for values, headers in pieces:
            left = PartitionColumns(binary(values), headers=of(headers, len(values)))
            while len(left.values):
                left = left.part(pending.add(left), len(left.values))
                if pending.is_full or len(left.values):
                    end()
        if pending.count:
            end()
        return found

    assert batches(Repeated) == batches(lambda headers, count: [headers] * count)


def test_delivery_callback_follows_its_record_into_the_batch():
    told: list[str] = []

    def call(name: str) -> Any:
        return lambda error, message: told.append(name)

    pending = Pending(10_000, 100)
    for n in range(3):
        piece = PartitionColumns(binary([b"a", b"b", b"c"]), callbacks={n: call(f"{n}")})
        pending.add(piece)
    assert sorted(pending.take().part(3, 9).callbacks) == [1, 5]
