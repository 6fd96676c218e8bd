"""Writes with a task's delivery and its ledger to a real Kafka, with faults that lose, repeat or change records."""

import uuid
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest

from fencepost.kafka.codec.columns import PartitionColumns, encode_columns
from fencepost.kafka.produce.batch_records import BatchQueue
from fencepost.kafka.read.browse import TopicBrowser
from fencepost.kafka.setting.client_settings import range_conf, reader_conf, transactional_conf
from fencepost.kafka.setting.table import BATCH, CLIENT, DIGESTS
from fencepost.ledger.audit import Audit, AuditReport
from fencepost.ledger.carried import carried_bounds
from fencepost.record import BinaryColumn, Repeated, TopicPartition
from fencepost.storage.offset_topic import OffsetReader, StoredOffset, stored
from fencepost.task.channel.task_spec import CommitSpec, OutputSpec, TaskSpec
from fencepost.task.delivery.lanes import LanedDelivery
from fencepost.task.delivery.ledger import CarryLimits, TaskLedger
from fencepost.task.delivery.outgoing import OutgoingColumns
from fencepost.transaction import TransactionalWriter

Fault = Callable[[PartitionColumns], PartitionColumns]


CARRYING, DIRECT = CarryLimits(time_s=600.0), CarryLimits(entries=0)


class LedgerStage:
    """One task that writes to `topic`, with its offsets and its ledger.

    `limits` says what its next incarnations carry: by default all but the first of 16 transactions are carried.
    """

    def __init__(self, bootstrap: str, topic: str, *, connector: str = "c", limits: CarryLimits = CARRYING) -> None:
        self.topic, self.offsets, self.ledger = topic, f"{topic}-offsets", f"{topic}-ledger"
        self.limits = limits
        self._bootstrap, self._connector = bootstrap, connector
        self._id = f"id-{uuid.uuid4().hex[:8]}"
        self.delivery = self.opened()

    def opened(self, ledger: str | None = None) -> LanedDelivery:
        """Return the delivery of another incarnation of the task, which fences the one before."""
        conf = transactional_conf({"bootstrap.servers": self._bootstrap}, self._id).conf
        writer = TransactionalWriter({**conf, CLIENT: BATCH, DIGESTS: (self.ledger, self.offsets)}, self._id)
        writer.open()
        commits = CommitSpec(ledger_topic=self.ledger if ledger is None else ledger)
        spec = TaskSpec(self._connector, 0, 1, "i", {}, {}, OutputSpec(offsets_topic=self.offsets), commits)
        self.delivery = LanedDelivery([writer], self.offsets)
        if commits.ledger_topic:
            self.delivery.ledger = TaskLedger(spec, self.limits)
            self.delivery.ledger.inherit(self.carried().items())
        return self.delivery

    def carried(self) -> dict[int, bytes]:
        """Return what the offsets topic carries of the task's ledger, as a worker reads it."""
        with closing(self._offset_reader()) as reader:
            reader.read_known(self._connector, 30.0)
            return reader.carried(self._connector, 0, self.ledger)

    def stored_offsets(self) -> Sequence[StoredOffset]:
        """Return the source offsets, as a worker reads them."""
        with closing(self._offset_reader()) as reader:
            return stored(reader.read_known(self._connector, 30.0))

    def _offset_reader(self) -> OffsetReader:
        return OffsetReader(reader_conf({"bootstrap.servers": self._bootstrap}).conf, self.offsets)

    def carried_records(self) -> int:
        """Return how many records with entries, or tombstones of them, the offsets topic has."""
        conf = range_conf({"bootstrap.servers": self._bootstrap}, "a-test").conf
        browser = TopicBrowser(conf, self.offsets)
        return sum(1 for _ in browser.read(browser.ranges, carried_bounds(self._connector, self.ledger)))

    def send(self, values: Sequence[bytes | None], partition: int = 0, **fields: Any) -> None:
        column = BinaryColumn(pa.array(values, pa.binary()))
        partitions = Repeated(partition, len(values))
        topics = Repeated(self.topic, len(values))
        self.delivery.send(OutgoingColumns(topics, column, partitions=partitions, **fields))

    def commit(self, offset: bytes = b"{}") -> None:
        self.delivery.commit([(b'["c",{"file":"f"}]', offset)])
        self.delivery.finished(wait=True)

    def write(self, values: Sequence[bytes | None], partition: int = 0, **fields: Any) -> None:
        """Write a transaction with these records."""
        self.send(values, partition, **fields)
        self.commit()

    def audit(self, **how: Any) -> AuditReport:
        conf = range_conf({"bootstrap.servers": self._bootstrap}, "an-audit").conf
        return Audit(conf, self.ledger, self._connector, **how).run()


def plant(monkeypatch: pytest.MonkeyPatch, fault: Fault) -> None:
    """Let clients apply `fault` to each batch: after its digest was taken, and before it is numbered and sent."""

    def encode(columns: PartitionColumns, **how: Any) -> Any:
        return encode_columns(fault(columns), **how)

    monkeypatch.setattr("fencepost.kafka.produce.protocol.encode_columns", encode)


def lose(value: bytes) -> Fault:
    """Return a fault that loses the record with this value."""
    return lambda columns: _with(columns, [each for each in columns.values.to_pylist() if each != value])


def lose_all_of(topic: str) -> Callable[..., int]:
    """Return a faulty `BatchQueue.add`, which loses what goes to this topic."""
    add = BatchQueue.add

    def lossy(queue: BatchQueue, place: TopicPartition, columns: PartitionColumns) -> int:
        queue._at(place)
        return len(columns.values) if place.topic == topic else add(queue, place, columns)

    return lossy


def repeat(value: bytes) -> Fault:
    """Return a fault that writes the record with this value twice."""
    return lambda columns: _with(
        columns, [each for one in columns.values.to_pylist() for each in [one] * (2 if one == value else 1)]
    )


def replace(changes: dict[bytes, bytes]) -> Fault:
    """Return a fault that writes other values."""
    return lambda columns: _with(columns, [changes.get(each, each) for each in columns.values.to_pylist()])


def _with(columns: PartitionColumns, values: list[bytes | None]) -> PartitionColumns:
    if values == columns.values.to_pylist():
        return columns
    return PartitionColumns(pa.array(values, pa.binary()), timestamps=columns.timestamps)
