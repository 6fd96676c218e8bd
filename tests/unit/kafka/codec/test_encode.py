"""What is made column by column is, byte for byte, what is made record by record."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fencepost.kafka.codec import encode
from fencepost.kafka.codec.compress import NONE, Codec
from fencepost.kafka.codec.encode import Rows, encode_batch, varint, varints
from fencepost.kafka.codec.encode_header import BatchProducer
from support.batch_records import drawn_records, rows_of
from support.slow_batch import PlainRecord, slow_batch, slow_body, slow_varint

PRODUCER = BatchProducer(4711, 3, is_transactional=True)
PLAIN = Codec(NONE)


def whole(rows: Rows, producer: BatchProducer = PRODUCER, sequence: int = 9) -> bytes:
    return b"".join(encode_batch(rows, PLAIN).stamped(producer, sequence))


@pytest.fixture(params=[0, 1_000], ids=["by columns", "row by row"])
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both ways to encode a batch, for batches of any size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode, "FEW", request.param)
        yield


EITHER_WAY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@EITHER_WAY
@given(records=drawn_records())
def test_encoded_batch_equals_that_of_a_slow_encoder(way: None, records: list[PlainRecord]) -> None:
    assert whole(rows_of(records)) == slow_batch(records, producer_id=4711, epoch=3, sequence=9, is_transactional=True)


@EITHER_WAY
@given(records=drawn_records(), start=st.integers(0, 79), count=st.integers(1, 80))
def test_slice_of_columns_is_encoded_like_separate_columns(
    way: None, records: list[PlainRecord], start: int, count: int
) -> None:
    start = min(start, len(records) - 1)
    part = records[start : start + count]
    assert b"".join(encode_batch(rows_of(records).slice(start, start + len(part)), PLAIN).body) == slow_body(part)


def test_offsets_of_many_records_go_up_by_one() -> None:
    records = [PlainRecord(None, b"%d" % index, 5) for index in range(20_000)]
    assert b"".join(encode_batch(rows_of(records), PLAIN).body) == slow_body(records)


def test_batch_of_a_producer_without_id_is_not_transactional() -> None:
    records = [PlainRecord(b"k", b"v", 5)]
    expected = slow_batch(records, producer_id=-1, epoch=-1, sequence=-1, is_transactional=False)
    assert whole(rows_of(records), BatchProducer(), -1) == expected


def test_batch_can_be_stamped_again_for_another_producer() -> None:
    batch = encode_batch(rows_of([PlainRecord(b"k", b"v", 5)]), PLAIN)
    batch.stamped(BatchProducer(1, 1, is_transactional=True), 8)
    again = b"".join(batch.stamped(PRODUCER, 9))
    assert again == b"".join(encode_batch(rows_of([PlainRecord(b"k", b"v", 5)]), PLAIN).stamped(PRODUCER, 9))
    assert len(again) == len(batch)


NUMBERS = [
    0,
    -1,
    1,
    63,
    64,
    -64,
    -65,
    8_191,
    8_192,
    -8_192,
    -8_193,
    2**20,
    2**21,
    2**31,
    2**55,
    2**62,
    2**63 - 1,
    -(2**63),
]


@pytest.mark.parametrize("number", NUMBERS)
def test_varint_equals_that_of_a_plain_loop(number: int) -> None:
    assert varint(number) == slow_varint(number)


@pytest.mark.parametrize("before", [b"", b"\0"])
def test_varints_of_a_column_equal_those_of_a_plain_loop(before: bytes) -> None:
    for count in range(1, len(NUMBERS) + 1):
        field = varints(pa.array(NUMBERS[:count], pa.int64()), before)
        rows = [piece.to_pylist() if isinstance(piece, pa.Array) else [piece.as_py()] * count for piece in field.pieces]
        found = [b"".join(row) for row in zip(*rows, strict=True)]
        assert found == [before + slow_varint(number) for number in NUMBERS[:count]]
        widths = [field.width] * count if isinstance(field.width, int) else field.width.to_pylist()
        assert widths == list(map(len, found))
