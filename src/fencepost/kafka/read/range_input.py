"""Reads a range of a partition, from one offset up to another, as Arrow batches.

The same range always gives the same records; nothing is committed, and no group is joined. Records of aborted
transactions, transaction markers and compacted records occupy offsets but are not returned. The end is reached once the
log is known to continue after it, or to end there.
"""

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from typing import Any

import pyarrow as pa

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.fork import ForkGuard
from fencepost.kafka.read.loss import report_loss
from fencepost.kafka.read.range_batches import RangeBatches
from fencepost.kafka.read.range_client import RangeClient, RangeSilence
from fencepost.kafka.read.record_columns import schema
from fencepost.kafka.value.log_gap import GapKind
from fencepost.kafka.value.log_range import LogRange
from fencepost.kafka.wire.planned_leaders import learn_planned

IDLE_S = 120.0
_ASK_S = 30.0
_PATIENCE_S = 5.0


class RangeInput:
    """Reads one range, once. For one thread of one process.

    With `fails_on_loss`, reading ends with a DataLossError if offsets of the range are gone, or if the topic was
    deleted or replaced. Without it, the rest of the range is read, with a warning. Compaction does not count as loss.
    """

    def __init__(
        self,
        conf: Mapping[str, Any],
        wanted: LogRange,
        *,
        columns: pa.Schema | None = None,
        fails_on_loss: bool = True,
        idle_s: float = IDLE_S,
    ) -> None:
        """`conf` comes from `range_conf`, and `columns` from `record_columns.schema`: by default all except headers.

        It is an error if nothing arrives for `idle_s`.
        """
        self._guard = ForkGuard()
        self._conf = dict(conf)
        self._wanted = wanted
        self._columns = schema() if columns is None else columns
        self._fails_on_loss = fails_on_loss
        self._idle_s = idle_s

    def batches(self) -> Generator[pa.RecordBatch]:
        """Return the records in the order of their offsets, as batches of the columns.

        Raises CorruptBatchError, DataLossError, KafkaAuthorizationError or KafkaRequestError, and ReadTimeoutError if
        nothing arrives for `idle_s`.
        """
        if self._wanted.size == 0:
            return
        self._guard.check("The reader of a range")
        learn_planned(self._conf, self._wanted)
        if not self._fails_on_loss and not self._is_same_topic():
            return
        whole = RangeBatches(self._conf, self._wanted, self._columns)
        yield from whole.batches()
        if whole.is_cut:
            self._lose(f"at offset {whole.at}, {GapKind.DIVERGED.value}")
        if whole.at < self._wanted.end:
            yield from self._by_clients(whole.at)
        self._is_same_topic()

    def _by_clients(self, offset: int) -> Iterator[pa.RecordBatch]:
        """Return the records from an offset on. A client that gets nothing is replaced: see `RangeClient.batches`.

        The next one has twice as long: brokers may only be slow, or throttle it.
        """
        patience_s = _PATIENCE_S
        with closing(RangeSilence(self._conf, self._wanted, self._idle_s)) as silence:
            while offset < self._wanted.end:
                client = RangeClient(self._conf, self._wanted, offset, silence, self._lose)
                yield from client.batches(self._columns, patience_s)
                patience_s = _PATIENCE_S if client.at > offset else 2 * patience_s
                offset = client.at

    def _is_same_topic(self) -> bool:
        """Return whether the topic was not replaced: the client would continue in a new topic of the same name."""
        if not self._wanted.topic_id:
            return True
        admin = Admin(self._conf, timeout_s=_ASK_S)
        try:
            found = admin.topics.get(self._wanted.place.topic)
        finally:
            admin.close()
        if found is None or found.id != self._wanted.topic_id:
            what = "was deleted" if found is None else "was deleted and created again"
            self._lose(f"topic {self._wanted.place.topic} {what} before it was read to the end of the range")
            return False
        return True

    def _lose(self, what: str) -> None:
        report_loss(self._wanted, what, is_error=self._fails_on_loss)
