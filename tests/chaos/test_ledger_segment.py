"""What is changed in a segment's file, with a right checksum, is found: a broker and its clients see nothing of it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import google_crc32c
import pyarrow as pa
import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.codec.columns import PartitionColumns, encode_columns
from fencepost.kafka.codec.decode_columns import decoded_columns
from fencepost.kafka.codec.encode_header import HEADER
from fencepost.kafka.codec.run_digest import BLOCK
from fencepost.ledger.finding import DifferenceKind
from support.ledger_stage import LedgerStage
from support.quick import quick_kafka

Edit = Callable[[bytes], bytes]
_CONTROL = 0x20
CHECKSUM = slice(17, 21)
COUNT, AT = 1_000, 500


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    with quick_kafka(dir=tmp_path) as broker:
        yield broker


def altered(batch: bytes) -> bytes:
    """Return a batch with another value, and the checksum of that."""
    old, new = b"line %07d" % (COUNT + AT), b"LINE %07d" % (COUNT + AT)
    assert old in batch
    changed = bytearray(batch.replace(old, new))
    changed[CHECKSUM] = google_crc32c.value(bytes(changed[CHECKSUM.stop :])).to_bytes(4, "big")
    return bytes(changed)


def without_a_record(batch: bytes) -> bytes:
    """Return a batch that lacks one record, as if it had never been in it."""
    base, *_, producer_id, epoch, sequence, _ = HEADER.unpack_from(batch)
    values = decoded_columns([memoryview(batch)]).values.to_pylist()
    del values[AT]
    made, _ = encode_columns(
        PartitionColumns(pa.array(values, pa.binary()), timestamps=HEADER.unpack_from(batch)[7]),
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
        compression="none",
    )
    return base.to_bytes(8, "big") + bytes(made)[8:]


def nothing(batch: bytes) -> bytes:
    return b""


def edit(segment: Path, change: Edit, number: int) -> None:
    """Change the batch of this number, not counting markers, in the file of a stopped broker."""
    data = segment.read_bytes()
    parts, at = [], 0
    while at < len(data):
        stop = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        batch = data[at:stop]
        if not HEADER.unpack_from(batch)[5] & _CONTROL:
            batch = change(batch) if number == 0 else batch
            number -= 1
        parts.append(batch)
        at = stop
    segment.write_bytes(b"".join(parts))
    for index in segment.parent.glob("*.*index"):
        index.unlink()  # the broker makes them again


@pytest.mark.parametrize(
    ("change", "kind", "records"),
    [
        (altered, DifferenceKind.ALTERED, BLOCK),
        (without_a_record, DifferenceKind.MISSING, 1),
        (nothing, DifferenceKind.MISSING, COUNT),
    ],
)
def test_a_segment_that_was_changed_is_found(
    own_kafka: EmbeddedKafka, change: Edit, kind: DifferenceKind, records: int
):
    admin = Admin({"bootstrap.servers": own_kafka.bootstrap_servers})
    for name in ("t", "t-offsets", "t-ledger"):
        admin.topics.create(name, partitions=1, replication=1)
    stage = LedgerStage(own_kafka.bootstrap_servers, "t")
    for start in range(0, 3 * COUNT, COUNT):
        stage.write([b"line %07d" % number for number in range(start, start + COUNT)])
    stage.delivery.close()
    assert stage.audit().differences == []
    own_kafka.stop()
    [segment] = own_kafka.directory.rglob("t-0/*.log")
    edit(segment, change, 1)
    own_kafka.start()
    report = stage.audit()
    (difference,) = report.differences
    assert (difference.kind, difference.records) == (kind, records)
    expected = COUNT + 1 + (0 if change is nothing else AT)
    assert expected - BLOCK < difference.first <= expected
    assert difference.entry is not None
    assert difference.entry.number == 1
    assert report.partitions[0].verified == 2 * COUNT
