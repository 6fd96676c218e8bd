"""Reads a range of a partition, from one offset up to another, as Arrow batches.

The same range always gives the same records; nothing is committed, and no group is joined. Records of aborted
transactions, transaction markers and compacted records occupy offsets but are not returned. The end is reached once the
log is known to continue after it, or to end there. If nothing of a range arrives, the cluster is asked why.
"""

import time
from bisect import bisect_left
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.codec.committed import FetchedBatch
from fencepost.kafka.codec.decode_columns import decoded_columns
from fencepost.kafka.codec.encode_header import CorruptBatchError
from fencepost.kafka.errors import KafkaRequestError, KafkaUnavailableError, ReadTimeoutError
from fencepost.kafka.fork import ForkGuard
from fencepost.kafka.read.batch_reader import BatchReader
from fencepost.kafka.read.client_reader import ClientReader
from fencepost.kafka.read.consumer import UNKNOWN_PARTITION
from fencepost.kafka.read.doubt import SURE_S, Doubts, report_loss
from fencepost.kafka.read.fetched_queue import Unread, UnreadFetched, decoded_chunks
from fencepost.kafka.read.plan_reader import PlanReader, Read
from fencepost.kafka.read.record_columns import BYTES, ROWS, decoded_records, fetched_records, pieces, schema
from fencepost.kafka.setting.batch_settings import lacking_to_read
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.position import GapKind, LogPosition, LogRange
from fencepost.kafka.wire.experience import learn_planned

_ASK_EVERY_S, _EDGES_S = 0.5, 2.0


class RangeSilence:
    """Finds out why nothing of a range arrives, and whether anything will."""

    def __init__(self, conf: Mapping[str, Any], wanted: LogRange, idle_s: float) -> None:
        self._wanted = wanted
        self._idle_s = idle_s
        self._admin = Admin(conf, timeout_s=_EDGES_S)
        self._moved_s, self._asked_s = time.monotonic(), float("-inf")
        self._doubts: Doubts[LogRange] = Doubts()
        self._end: int | None = None  # of the log with open transactions, as its leader last answered
        self.obstacle = ""
        """Why nothing arrives, if that is known."""

    def close(self) -> None:
        self._admin.close()

    def ended(self) -> None:
        """Record that something has arrived."""
        self._moved_s, self.obstacle, self._doubts = time.monotonic(), "", Doubts()

    @property
    def is_doubting(self) -> bool:
        """Return whether a loss is being confirmed."""
        return len(self._doubts) > 0

    def throttled(self, until_s: float) -> None:
        """Restart `idle_s` at the time when the broker's quota allows the next answer."""
        self._moved_s = max(self._moved_s, until_s)

    def is_suspicious(self, *, has_stopped: bool) -> bool:
        """Return whether to `ask`. `has_stopped`: nothing will arrive any more."""
        quiet_since_s = self._asked_s if has_stopped else max(self._moved_s, self._asked_s)
        return time.monotonic() - quiet_since_s > _ASK_EVERY_S

    def ask(self, at: int) -> tuple[int, str]:
        """Return where the log begins, as far as that is known, and what is certainly missing; "" if nothing is.

        Only the partition's leader is asked. The high watermark of a fetch is no evidence: after a failover it is lower
        than the last committed offset until enough replicas are in sync.
        """
        begin, self._end, self.obstacle, missing = at, None, "", ""
        try:
            edges = self._edges()
            if edges is None:
                missing = "there is no such topic or partition any more"
            else:
                begin, self._end = edges
            if self._end is not None and self._end < self._wanted.end:
                missing = f"the log ends at {self._end}: it was truncated, or the topic was created again"
        except KafkaUnavailableError as error:
            self.obstacle = f"the broker cannot be reached ({error})"
        except KafkaRequestError as error:
            if error.code not in UNKNOWN_PARTITION:
                raise
            self.obstacle = str(error)  # some brokers do not know the topic yet, or no longer
        self._asked_s = time.monotonic()
        seeming = [self._wanted] if missing else []
        is_sure = self._doubts.confirmed([self._wanted], seeming, self._asked_s, SURE_S)
        return begin, missing if is_sure else ""

    def _edges(self) -> tuple[int, int] | None:
        place = self._wanted.place
        found = self._admin.topics.get(place.topic)
        if found is None or place.partition >= found.partitions:
            return None
        begin = self._admin.offsets.starts([place])[place]
        return begin, self._admin.offsets.ends([place], read_committed=False)[place]

    def check(self, at: int) -> None:
        """Raise ReadTimeoutError if nothing has arrived for `idle_s`, unless a loss is being confirmed."""
        if not self.is_doubting and time.monotonic() - self._moved_s > self._idle_s:
            raise ReadTimeoutError(
                f"Nothing came for {self._idle_s:g} s while reading {self._wanted}, at offset {at}: "
                f"{self._reason()}. Option kafkaConsumer.pollTimeoutMs says how long to wait."
            )

    def _reason(self) -> str:
        if self.obstacle:
            return self.obstacle
        if self._end is not None and self._end >= self._wanted.end:
            return (
                "a transaction that wrote to it may still be open (`kafka-transactions.sh find-hanging --topic "
                f"{self._wanted.place.topic}` names one that nobody ends)"
            )
        return "the broker answers nothing"


IDLE_S = 120.0
_LOOK_S = 0.2
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
        self._at = wanted.start  # everything before it was read, or is known to be lost
        self._doing = f"reading {wanted}"

    def batches(self) -> Generator[pa.RecordBatch]:
        """Return the records in the order of their offsets, as batches of the columns.

        Raises CorruptBatchError for a batch that does not match its checksum or cannot be decoded, DataLossError,
        KafkaAuthorizationError or KafkaRequestError, and ReadTimeoutError if nothing arrives for `idle_s`.
        """
        if self._wanted.size == 0:
            return
        self._guard.check("The reader of a range")
        learn_planned(self._conf, self._wanted)
        if not self._fails_on_loss and not self._is_same_topic():
            return
        with closing(RangeSilence(self._conf, self._wanted, self._idle_s)) as silence:
            yield from self._read_to_end(silence)
        self._is_same_topic()

    def _read_to_end(self, silence: RangeSilence) -> Iterator[pa.RecordBatch]:
        """Return the records. A librdkafka client that gets nothing is replaced: another one has to go on.

        Its own metadata are those of the broker that it used last, which may be cut off from the others. The next one
        has twice as long: brokers may only be slow, or throttle it.
        """
        patience_s = _PATIENCE_S
        while self._at < self._wanted.end:
            began_at, reader = self._at, self._reader()
            try:
                yield from self._read(reader, silence, patience_s if isinstance(reader, ClientReader) else float("inf"))
            finally:
                reader.close()
            patience_s = _PATIENCE_S if self._at > began_at else 2 * patience_s

    def _reader(self) -> PlanReader:
        """Return a reader of whole batches, or librdkafka's if there is a setting that only it has.

        The former notices the end of a log without an empty answer, so its requests may wait longer at the broker.
        """
        if not lacking_to_read(self._conf):
            conf = {**self._conf, "fetch.wait.max.ms": int(_LOOK_S * 1000)}
            try:
                return BatchReader(conf, Unread(), doing=self._doing)
            except KafkaRequestError:
                pass  # files with certificates, for example, that only librdkafka can read
        return ClientReader(self._conf, doing=self._doing)

    def _read(self, reader: PlanReader, silence: RangeSilence, patience_s: float) -> Iterator[pa.RecordBatch]:
        place, until_s = self._wanted.place, time.monotonic() + patience_s
        reader.assign({place: LogPosition(self._at)})
        is_assigned = True
        while self._at < self._wanted.end and (time.monotonic() < until_s or silence.is_doubting):
            read = self._taken(reader, silence)
            is_assigned = is_assigned and place not in read.lost
            if place in read.cut:
                self._lose(f"at offset {self._at}, {GapKind.DIVERGED.value}")
            start = self._at
            yield from self._batches(read.fetched)
            if self._at > start:
                silence.ended()
                until_s = time.monotonic() + patience_s
            elif silence.is_suspicious(has_stopped=not is_assigned):
                self._ask(silence)
                if self._at > start or not is_assigned:
                    reader.unassign([place])
                    reader.assign({place: LogPosition(self._at)})
                    is_assigned = True
            if self._at < self._wanted.end:
                silence.check(self._at)

    def _taken(self, reader: PlanReader, silence: RangeSilence) -> Read:
        try:
            read = reader.read(_LOOK_S, ROWS, BYTES)
        except KafkaUnavailableError as error:
            time.sleep(_LOOK_S)  # otherwise the next request would follow at once
            read = Read(obstacle=str(error))
        read.ensure_allowed(self._doing, str(self._conf.get("bootstrap.servers", "")))
        silence.throttled(read.throttled_until_s)
        if read.away is not None or read.obstacle:
            silence.obstacle = read.obstacle or f"the broker cannot be reached ({read.away})"
        return read

    def _ask(self, silence: RangeSilence) -> None:
        """Report offsets that are gone, and go to the position after them."""
        begin, missing = silence.ask(self._at)
        if missing:
            self._lose(missing)
            self._at = self._wanted.end
        elif begin > self._at:
            last = min(begin, self._wanted.end) - 1
            self._lose(f"offsets {self._at} to {last} are gone: the log begins at {begin} now")
            self._at = begin

    # records

    def _batches(self, fetched: Fetched) -> list[pa.RecordBatch]:
        place, start = self._wanted.place, self._at
        if isinstance(fetched, UnreadFetched):
            sent = [each.sent for _, each in fetched.entries]
            found = self._decoded(sent, fetched) if any(each.head.records for each in sent) else []
            after = sent[-1].head.last + 1 if sent else start
        else:
            found = self._within(fetched)
            after = fetched.offsets[-1] + 1 if len(fetched) else start
        self._at = max(start, after, fetched.ends.get(place, start))
        return found

    def _decoded(self, sent: Sequence[FetchedBatch], fetched: UnreadFetched) -> list[pa.RecordBatch]:
        """Decode batches together. Those that this cannot do with are decoded in portions: old ones, and very large.

        Raises CorruptBatchError.
        """
        if not any(each.head.is_old for each in sent):
            try:
                found = decoded_columns([each.view for each in sent if each.head.records], self._columns.names)
            except CorruptBatchError:
                pass
            else:
                whole = decoded_records(self._wanted.place, self._columns, found)
                if sent[0].head.first < self._at or sent[-1].head.last >= self._wanted.end:
                    edges = (pa.scalar(offset, pa.int64()) for offset in (self._at, self._wanted.end))
                    begin, stop = (pc.sum(pc.less(found.offsets, edge)).as_py() for edge in edges)
                    whole = whole.slice(begin, stop - begin)
                return pieces(whole, whole.nbytes)
        return [batch for chunk in decoded_chunks(fetched.entries) for batch in self._within(chunk)]

    def _within(self, fetched: Fetched) -> list[pa.RecordBatch]:
        begin, stop = (bisect_left(fetched.offsets, offset) for offset in (self._at, self._wanted.end))
        whole = fetched_records(self._wanted.place, self._columns, fetched.part(begin, stop))
        return pieces(whole, whole.nbytes)

    def _is_same_topic(self) -> bool:
        """Return whether the topic was not replaced: the client would continue in a new topic of the same name."""
        if not self._wanted.topic_id:
            return True
        with closing(Admin(self._conf)) as admin:
            found = admin.topics.get(self._wanted.place.topic)
        if found is None or found.id != self._wanted.topic_id:
            what = "was deleted" if found is None else "was deleted and created again"
            self._lose(f"topic {self._wanted.place.topic} {what} before it was read to the end of the range")
            return False
        return True

    def _lose(self, what: str) -> None:
        report_loss(self._wanted, what, is_error=self._fails_on_loss)
