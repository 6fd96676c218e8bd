"""One record that is lost in ten million, or in a million in `make test`, is found within a minute."""

import time

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.codec.columns import PartitionColumns
from fencepost.kafka.codec.run_digest import BLOCK
from fencepost.ledger.finding import DifferenceKind
from fencepost.record import BinaryColumn, Repeated
from fencepost.task.delivery.outgoing import OutgoingColumns
from support.ledger_stage import LedgerStage, plant
from support.long_form import IS_LONG

RECORDS, LOST = (10_000_000, 7_654_321) if IS_LONG else (1_000_000, 765_432)
TRANSACTION, PARTITIONS = 100_000, 4
WIDTH, WITHIN_S = 15, 60.0
BEGINNING = b"x" * (100 - WIDTH)
BINARY = pa.binary()


def values(start: int) -> pa.Array:
    numbers = pa.array(range(start, start + TRANSACTION)).cast(pa.string())
    ends = pc.utf8_lpad(numbers, width=WIDTH, padding="0").cast(BINARY)
    beginnings = pa.repeat(pa.scalar(BEGINNING, BINARY), TRANSACTION)
    return pc.binary_join_element_wise(beginnings, ends, pa.scalar(b"", BINARY))


def without_the_lost_one(columns: PartitionColumns) -> PartitionColumns:
    at = pc.index(columns.values, pa.scalar(BEGINNING + b"%0*d" % (WIDTH, LOST), BINARY)).as_py()
    if at < 0:
        return columns
    left = pa.concat_arrays([columns.values[:at], columns.values[at + 1 :]])
    return PartitionColumns(left, timestamps=columns.timestamps)


def test_one_record_lost_in_millions_is_found_within_a_minute(kafka, topic_name, monkeypatch: pytest.MonkeyPatch):
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    admin.topics.create(topic_name, partitions=PARTITIONS, replication=1)
    for name in (f"{topic_name}-offsets", f"{topic_name}-ledger"):
        admin.topics.create(name, partitions=1, replication=1)
    plant(monkeypatch, without_the_lost_one)
    stage = LedgerStage(kafka.bootstrap_servers, topic_name)
    topics = Repeated(topic_name, TRANSACTION)
    for turn, start in enumerate(range(0, RECORDS, TRANSACTION)):
        partitions = Repeated(turn % PARTITIONS, TRANSACTION)
        stage.delivery.send(OutgoingColumns(topics, BinaryColumn(values(start)), partitions=partitions))
        stage.commit()
    began_s = time.monotonic()
    report = stage.audit()
    took_s = time.monotonic() - began_s
    admin.topics.delete([topic_name])
    (difference,) = report.differences
    assert (difference.kind, difference.records) == (DifferenceKind.MISSING, 1)
    turn = LOST // TRANSACTION
    before = turn // PARTITIONS  # transactions of the same partition, each with a marker
    assert difference.place.partition == turn % PARTITIONS
    assert 0 <= before * (TRANSACTION + 1) + LOST % TRANSACTION - difference.first < BLOCK
    assert sum(found.verified for found in report.partitions) == RECORDS - TRANSACTION
    assert took_s < WITHIN_S
