"""The digest of a partition's rows: the same for the same records in the same order, however they come."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.record import Repeated
from fencepost.spark.hand_digest import RowDigest, digest_rows
from fencepost.task.outgoing import Outgoing

Values = list[bytes | None]


def outgoing(values: Values, keys: Values | None = None) -> Outgoing:
    return Outgoing(Repeated("t", len(values)), values, keys)


def digest(*batches: Outgoing) -> str:
    found = RowDigest()
    for batch in batches:
        found.add(batch)
    return found.text()


values = st.lists(st.none() | st.binary(max_size=3), max_size=12)


@given(values, st.integers(0, 12))
def test_digest_does_not_depend_on_where_batches_end(rows: Values, at: int) -> None:
    assert digest(outgoing(rows)) == digest(outgoing(rows[:at]), outgoing(rows[at:]))


@given(values, values)
def test_digest_differs_when_any_row_or_the_order_does(one: Values, other: Values) -> None:
    assert (digest(outgoing(one)) == digest(outgoing(other))) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (outgoing([b"a"], [b"b"]), outgoing([b"b"], [b"a"])),
        (outgoing([b"a"], [None]), outgoing([b"a"], [b""])),
        (Outgoing(["t"], [b"a"]), Outgoing(["u"], [b"a"])),
        (Outgoing(["t"], [b"a"], partitions=[None]), Outgoing(["t"], [b"a"], partitions=[0])),
        (Outgoing(["t"], [b"a"], headers=[[("h", b"1")]]), Outgoing(["t"], [b"a"], headers=[[("h", None)]])),
    ],
)
def test_digest_is_of_everything_that_is_written(one: Outgoing, other: Outgoing) -> None:
    assert digest(one) != digest(other)


def batches(sizes: list[int]) -> Iterator[pa.RecordBatch]:
    first = 0
    for size in sizes:
        yield pa.record_batch({"value": [str(n).encode() for n in range(first, first + size)]})
        first += size


def records(batch: pa.RecordBatch) -> Outgoing:
    return outgoing(batch.column("value").to_pylist())


@settings(deadline=None)  # the first call imports PyArrow
@given(st.lists(st.integers(0, 5)), st.integers(1, 12))
def test_the_first_rows_have_a_digest_of_their_own(sizes: list[int], first: int) -> None:
    found = digest_rows(batches(sizes), records, first)
    assert found.rows == sum(sizes)
    part = None if sum(sizes) < first else digest_rows(batches([first]), records, 0).digest
    assert found.part == part
