"""Reads a range of a partition in whole batches, until something fails.

The client library, which handles all failures, then continues from there.
"""

import logging
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.kafka.codec.committed import FetchedBatch
from fencepost.kafka.codec.decode_columns import DecodedColumns, decoded_columns
from fencepost.kafka.codec.encode_header import CorruptBatchError
from fencepost.kafka.errors import KafkaAuthorizationError, KafkaRequestError, KafkaUnavailableError
from fencepost.kafka.read.batch_reader import BatchReader
from fencepost.kafka.read.record_columns import CONSTANT, MILLIS, ROWS, constant, pieces, typed
from fencepost.kafka.read.unread import Unread, UnreadFetched
from fencepost.kafka.setting.batch_settings import lacking_to_read
from fencepost.kafka.value.header_lists import header_lists
from fencepost.kafka.value.log_gap import LogPosition
from fencepost.kafka.value.log_range import LogRange
from fencepost.record import TopicPartition

log = logging.getLogger(__name__)
IDLE_S = 1.0
"""If nothing arrives for this long, the client library continues."""


class RangeBatches:
    """Reads one range, or only its beginning, once. For one thread of one process."""

    def __init__(self, conf: Mapping[str, Any], wanted: LogRange, columns: pa.Schema) -> None:
        """`conf` comes from `range_conf`, and `columns` from `record_columns.schema`."""
        self._conf = conf
        self._wanted = wanted
        self._columns = columns
        self.at = wanted.start
        """Everything before it was read."""
        self.is_cut = False
        """Whether the last read records are no longer in the log."""

    def batches(self) -> Generator[pa.RecordBatch]:
        """Return the records in the order of their offsets, up to `at`.

        Raises CorruptBatchError for a batch that does not match its checksum.
        """
        if lacking_to_read(self._conf):
            return
        try:
            reader = BatchReader(self._conf, Unread())
        except KafkaRequestError:
            return
        try:
            yield from self._read(reader)
        finally:
            reader.close()

    def _read(self, reader: BatchReader) -> Generator[pa.RecordBatch]:
        reader.assign({self._wanted.place: LogPosition(self.at)})
        while self.at < self._wanted.end and not self.is_cut:
            try:
                read = reader.read(IDLE_S, ROWS)
            except (KafkaAuthorizationError, KafkaRequestError, KafkaUnavailableError):
                return
            found, self.is_cut = read.fetched, self._wanted.place in read.cut
            sent = [each.sent for _, each in found.entries] if isinstance(found, UnreadFetched) else []
            end = found.ends.get(self._wanted.place, self.at)
            if (not sent and end <= self.at) or any(each.head.is_old for each in sent):
                return
            try:
                made = self._made([each for each in sent if each.head.records])
            except CorruptBatchError as error:  # though its checksum is right: the client may be able to read it
                log.info("%s is read by another client from offset %d on: %s", self._wanted, self.at, error)
                return
            self.at = max(end, sent[-1].head.last + 1 if sent else 0)
            yield from made

    def _made(self, sent: Sequence[FetchedBatch]) -> list[pa.RecordBatch]:
        if not sent:
            return []
        whole = self._within(decoded_columns([each.view for each in sent], self._columns.names), sent)
        return pieces(whole, whole.nbytes)

    def _within(self, found: DecodedColumns, sent: Sequence[FetchedBatch]) -> pa.RecordBatch:
        """Return the records within the range: the first batch may begin before it, and the last may end after it."""
        whole = _record_batch(self._wanted.place, self._columns, found)
        if sent[0].head.first >= self.at and sent[-1].head.last < self._wanted.end:
            return whole
        begin, stop = (
            pc.sum(pc.less(found.offsets, pa.scalar(offset, pa.int64()))).as_py()
            for offset in (self.at, self._wanted.end)
        )
        return whole.slice(begin, stop - begin)


def _record_batch(place: TopicPartition, columns: pa.Schema, found: DecodedColumns) -> pa.RecordBatch:
    """Return records that were decoded together, with the columns of a schema from `record_columns.schema`."""
    made = [constant(place, f, len(found)) if f.name in CONSTANT else typed(_decoded(found, f), f) for f in columns]
    return pa.RecordBatch.from_arrays(made, schema=columns)


def _decoded(found: DecodedColumns, field: pa.Field) -> pa.Array:
    match field.name:
        case "timestamp":
            return found.timestamps.view(MILLIS)
        case "timestampType":
            return found.is_append_time.cast(field.type)
        case "headers":
            return pa.nulls(len(found), field.type) if found.headers is None else header_lists(found.headers)
        case "offset":
            return found.offsets
    return found.keys if field.name == "key" else found.values
