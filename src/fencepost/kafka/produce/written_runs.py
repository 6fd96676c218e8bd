"""What a batch client has queued in the present transaction, by partition, for the ledger."""

from fencepost.kafka.codec.columns import PartitionColumns
from fencepost.kafka.codec.encode_header import SEQUENCES
from fencepost.kafka.codec.run_digest import BLOCK, RunDigest, WrittenRun
from fencepost.kafka.produce.protocol import Protocol
from fencepost.record import TopicPartition


class WrittenRuns:
    """The runs of one producer since they were last taken. For one thread at a time."""

    def __init__(self) -> None:
        self._open: dict[TopicPartition, tuple[int, RunDigest]] = {}
        self._next: dict[TopicPartition, int] = {}  # sequences after the runs that were taken in this transaction
        self._records = 0  # in the open runs
        self._producer_id = self._epoch = -1

    def clear(self) -> None:
        """Begin with another transaction. Nothing is queued at that moment."""
        self._open.clear()
        self._next.clear()
        self._records = 0

    def add(self, place: TopicPartition, columns: PartitionColumns, protocol: Protocol | None) -> None:
        """Add records that were queued for a partition."""
        assert protocol is not None
        if place not in self._open:
            # At the first record of a transaction nothing is queued, so the next sequence is that of this record.
            first = self._next.get(place, protocol.coordinator.sequences.get(place, 0))
            self._open[place] = first, RunDigest()
            _, self._producer_id, self._epoch = protocol.coordinator.producer
        self._open[place][1].add(columns)
        self._records += len(columns.values)

    @property
    def blocks(self) -> int:
        """Return how many blocks the open runs have, at most."""
        return self._records // BLOCK + len(self._open)

    def take(self) -> list[WrittenRun]:
        """Remove and return the runs. Later records of this transaction begin others."""
        taken = [
            WrittenRun(place, self._producer_id, self._epoch, first, digest.digest())
            for place, (first, digest) in self._open.items()
        ]
        for run in taken:
            self._next[run.place] = (run.sequence + run.digest.records) % SEQUENCES
        self._open.clear()
        self._records = 0
        return taken
