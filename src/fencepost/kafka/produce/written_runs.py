"""What a batch client has queued in the present transaction, by partition, for the ledger."""

from collections.abc import Collection
from typing import NamedTuple

from confluent_kafka import murmur2

from fencepost.kafka.codec.columns import PartitionColumns
from fencepost.kafka.codec.encode_header import SEQUENCES
from fencepost.kafka.codec.run_digest import BLOCK, RunDigest, WrittenRun
from fencepost.kafka.produce.protocol import Protocol
from fencepost.kafka.wire.cluster import known_id, known_partitions
from fencepost.record import TopicPartition


class _Begun(NamedTuple):
    """A run whose records are coming in; `first` is its sequence, `after` an offset that they come after."""

    first: int
    topic_id: str
    after: int
    digest: RunDigest


class WrittenRuns:
    """The runs of one producer since they were last taken. For one thread at a time."""

    def __init__(self, left_out: Collection[str] = ()) -> None:
        """Keep digests of all topics but `left_out`."""
        self._left_out = frozenset(left_out)
        self._partitions: dict[str, int] = {}  # how many those topics have
        self._open: dict[TopicPartition, _Begun] = {}
        self._next: dict[TopicPartition, int] = {}  # sequences after the runs that were taken in this transaction
        self._ids: dict[str, str] = {}
        self._records = 0  # in the open runs
        self._producer_id = self._epoch = -1

    def clear(self) -> None:
        """Begin with another transaction. Nothing is queued at that moment."""
        self._open.clear()
        self._next.clear()
        self._records = 0

    def add(self, place: TopicPartition, columns: PartitionColumns, protocol: Protocol | None) -> None:
        """Add records that were queued for a partition."""
        if place.topic in self._left_out:
            assert protocol is not None
            self._partitions[place.topic] = known_partitions(protocol.cluster, place.topic)
            return
        if place not in self._open:
            assert protocol is not None
            self._open[place] = self._begun(place, protocol)
        self._open[place].digest.add(columns)
        self._records += len(columns.values)

    def _begun(self, place: TopicPartition, protocol: Protocol) -> _Begun:
        coordinator, topic_id = protocol.coordinator, known_id(protocol.cluster, place.topic)
        _, self._producer_id, self._epoch = coordinator.producer
        if self._ids.get(place.topic, topic_id) != topic_id:  # created again: its offsets begin again
            for each in [each for each in coordinator.offsets if each.topic == place.topic]:
                del coordinator.offsets[each]
        self._ids[place.topic] = topic_id
        after = coordinator.offsets.get(place, -1)
        if place in self._next:
            return _Begun(self._next[place], topic_id, after, RunDigest())
        # At the first record of a transaction nothing is queued, so the next sequence is that of this record, and the
        # marker of the transaction before comes before it.
        return _Begun(coordinator.sequences.get(place, 0), topic_id, after + (after >= 0), RunDigest())

    def partition_of(self, topic: str, key: bytes) -> int | None:
        """Return the partition of a key in a topic that is left out; None if nothing was sent there yet."""
        count = self._partitions.get(topic)
        return murmur2(key, count) if count else None

    @property
    def blocks(self) -> int:
        """Return how many blocks the open runs have, at most."""
        return self._records // BLOCK + len(self._open)

    def take(self) -> list[WrittenRun]:
        """Remove and return the runs. Later records of this transaction begin others."""
        taken = [
            WrittenRun(place, self._producer_id, self._epoch, run.first, run.digest.digest(), run.topic_id, run.after)
            for place, run in self._open.items()
        ]
        for run in taken:
            self._next[run.place] = (run.sequence + run.digest.records) % SEQUENCES
        self._open.clear()
        self._records = 0
        return taken
