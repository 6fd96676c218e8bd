"""A direct write, `df.write.format("fencepost")`, as a partition's task sees it.

Each partition is one transaction: its rows, and a marker with their number and digest.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from fencepost.api import FencedError
from fencepost.kafka.errors import ReadTimeoutError
from fencepost.kafka.read.log import LogReader
from fencepost.kafka.setting.table import ClientKind
from fencepost.spark.direct_write.digest import Digested, RowDigest
from fencepost.spark.direct_write.heartbeat import WriteHeartbeat, end_abandoned
from fencepost.spark.direct_write.marker import (
    AnnouncedRun,
    Journal,
    Marker,
    differs,
    marker_record,
    row_difference,
    transactional_id,
)
from fencepost.spark.direct_write.options import DirectWriteOptions, WritePartitionsError
from fencepost.spark.direct_write.plan import WritePlan
from fencepost.spark.partition.stream_end import ensure_complete
from fencepost.spark.partition.write import PartitionResult, Position, cut_at, write_partition
from fencepost.spark.row.columns import RecordMaker
from fencepost.task.delivery.finish import OffsetRecords
from fencepost.task.delivery.outgoing import OutgoingColumns

_READ_S = 60.0
# Other transactions in the topic of markers last only for their commit. One that lasts longer may be abandoned.
_SUSPICIOUS_S = 10.0


def write_rows(
    options: DirectWriteOptions, plan: WritePlan, partition: int, columns: RecordMaker, batches: Iterable[Any]
) -> PartitionResult:
    """Write the rows of a partition with heartbeats, in one transaction or in parts, unless an earlier run has.

    Raises the errors of `write_partition`, WriteDiffersError and WritePartitionsError.
    """
    done = plan.markers.get(partition)
    if done is not None and done.is_done:
        return PartitionResult(done.rows, skipped=True)
    run = DirectWriteRun(options, plan, partition, columns)
    with WriteHeartbeat(options, partition):
        return write_partition(run, batches, run.outgoing, ensure_complete)


class DirectWriteRun:
    """The `PartitionRun` of a direct write."""

    def __init__(self, options: DirectWriteOptions, plan: WritePlan, partition: int, columns: RecordMaker) -> None:
        """Raise WritePartitionsError if the frame has more partitions than `write.partitions`."""
        if options.partitions is not None and partition >= options.partitions:
            raise WritePartitionsError(
                f"option write.partitions is {options.partitions}, but the frame has more partitions"
            )
        self._options = options
        self._plan = plan
        self._partition = partition
        self._columns = columns
        # A write that cannot be run again is not compared; but its parts are, when Spark retries a task.
        self._digest = None if options.is_anonymous and not options.rows_per_commit else RowDigest()
        self.producer_conf = options.transactional_conf()
        self.transactional_id: str | None = transactional_id(options.write_id, partition)
        self.offsets_topic = options.offsets_topic
        self.rows_per_commit = options.rows_per_commit

    def admit(self) -> Position | None:
        """Return what this partition has committed. Raises FencedError if another run of the write has begun."""
        journal = self._read_journal()
        newest = journal.runs.get(self._options.write_id)
        if newest is None or newest.run != self._plan.run or newest.is_over:
            raise FencedError(f"write.id {self._options.write_id} has ended, or another run of it has begun")
        own = journal.markers.get(self._options.write_id, {}).get(self._partition)
        marker = own or self._plan.markers.get(self._partition)
        return None if marker is None else marker.value()

    @property
    def copier(self) -> None:
        return None

    def is_unchanged(self) -> bool:
        return True

    def remaining(self, batches: Iterable[Any], committed: Position | None) -> Iterator[Any]:
        """Yield the rows after the committed ones, once these prove unchanged.

        Raises WriteDiffersError.
        """
        if committed is None:
            yield from batches
            return
        marker = Marker.of(committed)
        digest, is_past = RowDigest(), False
        for piece in cut_at(batches, marker.rows):
            if not is_past:
                digest.add(self._columns.outgoing(piece), piece)
                is_past = self._has_passed(marker, digest)
            else:
                yield piece
        if not is_past:
            self._ensure(row_difference(self._partition, marker, Digested(digest.rows, digest.text(), {})))

    def outgoing(self, batch: Any) -> OutgoingColumns:
        """Return the records of rows that are sent now."""
        records = self._columns.outgoing(batch)
        if self._digest is not None:
            self._digest.add(records, batch)
        return records

    def offset_records(self, position: Position) -> OffsetRecords:
        """Return the marker. Raises WriteDiffersError if the rows are not those that were compared."""
        digest = None if self._digest is None else self._digest.text()
        marker = Marker(
            rows=int(position["rows"]),
            is_done=bool(position.get("done")),
            digest=digest,
            partitions=self._options.partitions,
            topic=self._options.topic,
            columns=self._plan.columns,
            run=self._plan.run,
        )
        expected = None if self._plan.expected is None else self._plan.expected[self._partition]
        if expected is not None and not expected.has(marker.rows, digest, is_done=marker.is_done):
            self._ensure(f"partition {self._partition} changed since it was compared")
        return [marker_record(self._options.write_id, self._partition, marker)]

    def _has_passed(self, marker: Marker, digest: RowDigest) -> bool:
        if digest.rows < marker.rows:
            return False
        text = digest.text()
        self._ensure(row_difference(self._partition, marker, Digested(digest.rows, text, {digest.rows: text})))
        self._digest = digest
        return True

    def _ensure(self, difference: str | None) -> None:
        if difference is not None:
            raise differs(self._options.write_id, [difference])

    def _read_journal(self) -> Journal:
        """Read the topic of markers from where it was when the run was planned, to its current end (E3)."""
        journal = self._journal()
        reader = self._reader(read_committed=True)
        try:
            try:
                reader.read_to_end(_SUSPICIOUS_S, journal.take)
            except ReadTimeoutError:
                self._end_abandoned()
                reader.read_to_end(_READ_S, journal.take)
        finally:
            reader.close()
        return journal

    def _end_abandoned(self) -> None:
        """Fence abandoned transactions that block the topic of markers."""
        journal = self._journal()
        reader = self._reader(read_committed=False)
        topic = self._options.offsets_topic
        try:
            reader.read_to_end(_READ_S, journal.take)
            end_abandoned(
                self._options,
                lambda found: (
                    any(held == topic for held, _ in found.topic_partitions)
                    and found.transactional_id != self.transactional_id
                ),
                reader,
                journal,
            )
        finally:
            reader.close()

    def _journal(self) -> Journal:
        journal = Journal()
        own = AnnouncedRun(self._plan.run, self._options.partitions, is_over=False, timestamp_ms=0)
        journal.runs[self._options.write_id] = own
        return journal

    def _reader(self, *, read_committed: bool) -> LogReader:
        reader = LogReader(
            self._options.conf(ClientKind.CONSUMER), self._options.offsets_topic, read_committed=read_committed
        )
        reader.go_on_at(self._plan.positions)
        return reader
