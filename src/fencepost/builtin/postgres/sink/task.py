"""A task of the sink: gathers records, writes them with their offsets, and continues at the database's offsets."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

from fencepost.api import (
    ConfigError,
    ExactlyOnceSupport,
    FatalError,
    FencedError,
    FencingToken,
    RecordError,
    RetriableError,
    SettingValue,
    SinkBatch,
    SinkConnector,
    SinkTask,
    TopicPartition,
)
from fencepost.builtin.postgres.envelope.unavailable import placeholders
from fencepost.builtin.postgres.sink.changes import BadRecordsError, Changes, Layout, cut
from fencepost.builtin.postgres.sink.database import Database
from fencepost.builtin.postgres.sink.offsets import Log, Move
from fencepost.builtin.postgres.sink.settings import SinkSettings, with_own_keys
from fencepost.record.column import runs_of

log = logging.getLogger(__name__)

_LINGER_MS = 200
_SETTLE_S = 60.0
_MISSING = (
    "it needs the Python module psycopg, which is not installed: install the extra with `pip install "
    "'fencepost[postgres]'` on the worker and on all executors"
)


@dataclass
class Partition:
    """What the task knows of a partition that it owns.

    `stored` is its offset in the database; None if it has none. `next` is the offset after the last record that was
    gathered, and `put` the one after the last record of the last `put`.
    """

    log: Log
    stored: int | None = None
    next: int = 0
    put: int = 0

    def goes_back(self, first: int) -> bool:
        """Say whether a `put` with this first offset goes back, before what was put or, if nothing was, is stored."""
        return first < (self.put or self.next)


class PostgresSinkTask(SinkTask["PostgresSink"]):
    """Writes to one database.

    Order of a write: 1 records that cannot be written are found, and their dead letters are safe ▸ 2 rows and offsets
    are committed in one transaction of the database ▸ 3 the group's offsets follow, which nothing depends on. After
    any error of the database the connection is made again, and its offsets say what is left to write.
    """

    takes_columns = True

    def start(self) -> None:
        self._layout = Layout(self.config)
        self._placeholders = placeholders(self.config.unavailable_value_placeholder)
        self._database = Database(self.config, sink_name(self.config))
        self._owned: dict[TopicPartition, Partition] = {}
        self._gathered: list[SinkBatch] = []
        self._resets: set[TopicPartition] = set()  # whose topics are to be looked at
        self._since_s = 0.0
        self._end: FencedError | None = None  # this instance must write nothing more
        self._claimed_with: FencingToken | None = None
        try:
            self._database.connect()
        except RetriableError as error:  # a start is not repeated, but an `open` is
            log.warning("the task connects again when it gets partitions: %s", error)

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        self._ensure_claimed()
        self._owned.update({place: Partition(self._log(place)) for place in partitions})
        self._claim(partitions)
        self.context.seek({p: offset for p in partitions if (offset := self._owned[p].stored) is not None})

    def put(self, batch: SinkBatch) -> None:
        self._ensure_claimed()
        new = self._new(batch)
        if len(new):
            self._since_s = self._since_s if self._gathered else time.monotonic()
            self._gathered.append(new)
            for place, end in _ends(new).items():
                self._owned[place].next = end
        if not self._gathered:
            return
        is_due = time.monotonic() - self._since_s >= _LINGER_MS / 1000
        if is_due or sum(map(len, self._gathered)) >= self.config.batch_size or not len(batch):
            self._write({})
        else:
            self.context.timeout(_LINGER_MS)

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Write what was gathered. The database's offsets also pass records that were skipped."""
        self._ensure_claimed()
        self._follow_new_topics([])
        # While it has none, and nothing was put, the group's may still be those of another topic of the same name.
        self._write({p: offset for p, offset in offsets.items() if p in self._owned and self._owned[p].next})
        return offsets

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        lost = frozenset(partitions)
        self._gathered = [left for batch in self._gathered if len(left := batch.without(lost))]
        for place in partitions:
            self._owned.pop(place, None)

    def stop(self) -> None:
        self._database.close()

    def _log(self, place: TopicPartition) -> Log:
        return Log(place, self.context.topic_id(place.topic))

    @property
    def _token(self) -> FencingToken:
        token = self.context.fencing_token
        if token is None:
            raise FencedError("the task is not a member of its group")
        return token

    def _ensure_claimed(self) -> None:
        """Connect again after an error: the database's offsets say what of the gathered records is committed.

        Partitions that the task has kept while others moved are claimed again: its token is another one then.

        Raises FencedError, now and whenever it is called again, if the database has lost what it had committed, as a
        standby may that takes over: another instance continues there.
        """
        if self._end is not None:
            raise self._end
        if self._database.is_connected and self._claimed_with == self._token:
            return
        if not self._database.is_connected:
            self._database.connect()
        before = {place: owned.stored for place, owned in self._owned.items()}
        self._claim(list(self._owned))
        self._claimed_with = self._token
        back = [place for place, owned in self._owned.items() if (owned.stored or 0) < (before[place] or 0)]
        if back:
            self._end = FencedError(f"the database has gone back in {back[0]}: the task starts over at its offsets")
            raise self._end
        starts = {place: owned.stored for place, owned in self._owned.items()}
        self._gathered = [left for batch in self._gathered if len(left := _from(batch, starts))]

    def _claim(self, places: Sequence[TopicPartition]) -> None:
        for log_, offset in self._database.claim([self._owned[place].log for place in places], self._token).items():
            owned = self._owned[log_.place]
            owned.stored, owned.next = offset, max(offset or 0, owned.next)

    def _new(self, batch: SinkBatch) -> SinkBatch:
        """Return the records that were not gathered yet."""
        firsts: dict[TopicPartition, int] = {}
        at = 0
        for place, count in runs_of(batch.places):
            firsts.setdefault(place, batch.offsets[at])
            at += count
        self._follow_new_topics([place for place, first in firsts.items() if self._owned[place].goes_back(first)])
        for place, end in _ends(batch).items():
            self._owned[place].put = end
        known: dict[TopicPartition, int | None] = {
            place: self._owned[place].next for place, first in firsts.items() if first < self._owned[place].next
        }
        return _from(batch, known) if known else batch

    def _follow_new_topics(self, back: Sequence[TopicPartition]) -> None:
        """Begin with the offsets of other topics, if topics of these partitions, or where reading was reset, are."""
        self._resets |= self.context.take_resets()
        moved = self._owned.keys() & {*back, *self._resets}
        again = {place: new for place in moved if (new := self._log(place)) != self._owned[place].log}
        if again:
            self._write({})
            log.warning("topics were created again; their records are written from the beginning: %s", sorted(again))
            self._owned.update({place: Partition(new) for place, new in again.items()})
            self._claim(list(again))
        self._resets.clear()

    def _write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write what was gathered, and move the offsets beyond it; at least up to `offsets`."""
        batch = SinkBatch.joined(self._gathered)
        ends = {place: max(end, offsets.get(place, 0)) for place, end in (dict(offsets) | _ends(batch)).items()}
        moves = [
            Move(owned.log, owned.stored, end)
            for place, end in ends.items()
            if end > ((owned := self._owned[place]).stored or 0)
        ]
        if not moves:
            return
        while True:
            try:
                self._database.write(self._changes(batch), moves, self._token)  # 2
                break
            except BadRecordsError as error:
                batch = self._without(batch, error)  # 1
        self._gathered = []
        for move in moves:
            owned = self._owned[move.log.place]
            owned.stored, owned.next = move.after, max(move.after, owned.next)

    def _changes(self, batch: SinkBatch) -> list[Changes]:
        return [piece for whole in self._layout.changes(batch) for piece in cut(whole, self._placeholders)]

    def _without(self, batch: SinkBatch, error: BadRecordsError) -> SinkBatch:
        """Report records that cannot be written, wait until their dead letters are safe, and return the others."""
        found = [
            (row, RecordError(f"{batch.places[row]} at offset {batch.offsets[row]} cannot be written: {reason}"))
            for row, reason in error.found
        ]
        reporter = self.context.errant_record_reporter
        if reporter is None:
            raise FatalError(str(found[0][1]))
        reports = [reporter.report(batch.record(row), reason) for row, reason in found]
        for report in reports:
            try:
                report.result(_SETTLE_S)
            except TimeoutError:
                raise RetriableError("a dead letter is not safe yet") from None
        bad = {row for row, _ in found}
        left = batch.select([row for row in range(len(batch)) if row not in bad])
        self._gathered = [left] if len(left) else []
        return left


def _ends(batch: SinkBatch) -> dict[TopicPartition, int]:
    """Return the offset after the last record of each partition."""
    found: dict[TopicPartition, int] = {}
    at = 0
    for place, count in runs_of(batch.places):
        at += count
        found[place] = batch.offsets[at - 1] + 1
    return found


def _from(batch: SinkBatch, starts: Mapping[TopicPartition, int | None]) -> SinkBatch:
    """Return the records at or after these offsets; all of a partition without one."""
    pairs = zip(batch.places, batch.offsets, strict=True)
    return batch.where([offset >= (starts.get(place) or 0) for place, offset in pairs])


def sink_name(config: Any) -> str:
    """Return the name under which the sink's offsets are stored: the connector's."""
    return str(config.originals.get("name", "sink"))


class PostgresSink(SinkConnector, SinkSettings):
    """Writes topics to tables of Postgres, each record exactly once.

    Rows are written with the offsets of their records in one transaction of the database. The keys are those of
    Confluent's JDBC sink, and those of Debezium's are accepted, too. Records are plain, or Debezium's envelopes.
    """

    task = PostgresSinkTask

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        if find_spec("psycopg") is None:
            raise ConfigError(f"PostgresSink cannot be used: {_MISSING}")
        super().__init__(properties)

    @classmethod
    def validate_values(cls, properties: Mapping[str, object]) -> list[SettingValue]:
        values = super().validate_values(with_own_keys(properties))
        if find_spec("psycopg") is not None:
            return values
        key = cls.key_of("connection_url")
        return [replace(v, errors=(*v.errors, _MISSING)) if v.setting.key == key else v for v in values]

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Change the database's offsets: at the next start they count, not the group's."""
        database = Database(self, sink_name(self))
        try:
            database.connect()
            database.alter(offsets)
        finally:
            database.close()
        return True
