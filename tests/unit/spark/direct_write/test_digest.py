"""The digest of a partition's rows: the same for the same records in the same order, however they come."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.record import Repeated
from fencepost.spark.direct_write.digest import RowDigest, digest_rows
from fencepost.task.delivery.outgoing import OutgoingColumns

Values = list[bytes | None]


def outgoing(values: Values, keys: Values | None = None) -> OutgoingColumns:
    return OutgoingColumns(Repeated("t", len(values)), values, keys)


def digest(*batches: OutgoingColumns) -> str:
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
        (OutgoingColumns(["t"], [b"a"]), OutgoingColumns(["u"], [b"a"])),
        (OutgoingColumns(["t"], [b"a"], partitions=[None]), OutgoingColumns(["t"], [b"a"], partitions=[0])),
        (
            OutgoingColumns(["t"], [b"a"], headers=[[("h", b"1")]]),
            OutgoingColumns(["t"], [b"a"], headers=[[("h", None)]]),
        ),
    ],
)
def test_digest_covers_every_written_column(one: OutgoingColumns, other: OutgoingColumns) -> None:
    assert digest(one) != digest(other)


def batches(sizes: list[int]) -> Iterator[pa.RecordBatch]:
    first = 0
    for size in sizes:
        yield pa.record_batch({"value": [str(n).encode() for n in range(first, first + size)]})
        first += size


def records(batch: pa.RecordBatch) -> OutgoingColumns:
    return outgoing(batch.column("value").to_pylist())


@settings(deadline=None)  # the first call imports PyArrow
@given(st.lists(st.integers(0, 5)), st.integers(0, 12), st.integers(0, 3))
def test_rows_have_a_digest_at_every_possible_commit(sizes: list[int], first: int, rows_per_commit: int) -> None:
    found = digest_rows(batches(sizes), records, first, rows_per_commit)
    assert found.rows == sum(sizes)
    parts = range(first or rows_per_commit, found.rows, rows_per_commit) if rows_per_commit else [first]
    assert {0, *parts, found.rows} >= set(found.ends) >= {rows for rows in parts if 0 < rows < found.rows}
    assert found.ends == {rows: digest_rows(batches([rows]), records, 0).digest for rows in found.ends}
    assert found.ends[found.rows] == found.digest


@settings(deadline=None)
@given(
    st.lists(st.none() | st.text(max_size=3), max_size=12),
    st.sampled_from([pa.string(), pa.binary(), pa.large_string(), pa.large_binary()]),
    st.integers(0, 12),
)
def test_digest_does_not_depend_on_arrow_slices_and_types(texts: list[str | None], kind: pa.DataType, at: int) -> None:
    values = [None if text is None else text.encode() for text in texts]
    whole = pa.record_batch({"value": pa.array(values, pa.binary()).cast(kind), "key": pa.array(values, pa.binary())})
    found = RowDigest()
    for piece, part in ((whole.slice(0, at), values[:at]), (whole.slice(at), values[at:])):
        found.add(outgoing(part, part), piece)
    assert found.text() == digest(outgoing(values, values))
