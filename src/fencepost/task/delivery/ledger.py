"""The entries that a task writes to its ledger, in the transactions that they describe.

An entry is in a record of the same transaction as those that it describes (E1): if it cannot be written, the
transaction is not committed; a fenced task writes none that is visible; and what is aborted has none.
"""

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from fencepost.kafka.codec.run_digest import WrittenRun
from fencepost.kafka.setting.client_settings import most_record_bytes
from fencepost.ledger.carried import carried_key
from fencepost.ledger.entry import (
    BLOCK_BYTES,
    LedgerEntry,
    LedgerFormatError,
    LedgerRecord,
    RecordEncoder,
    Writer,
    parted,
)
from fencepost.record import Repeated, TopicPartition
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.delivery.finish import OffsetRecords
from fencepost.task.delivery.outgoing import OutgoingColumns
from fencepost.transaction import TransactionalWriter

log = logging.getLogger(__name__)

Record = tuple[str, bytes | None, bytes, int | None]
"""Topic, value, key, and a partition if it is not that of the key."""


@dataclass(frozen=True, slots=True)
class CarryLimits:
    """How much may be carried, and for how long. Each transaction writes it again, so more would be dearer."""

    entries: int = 16
    size_bytes: int = 4096
    time_s: float = 1.0


@dataclass(frozen=True, slots=True)
class LedgerTopics:
    """Where the entries of one task are."""

    connector: str
    task: int
    ledger: str
    offsets: str

    def encoder(self) -> RecordEncoder:
        return RecordEncoder(self.connector, self.task, self.offsets)

    def written(self, value: bytes) -> Record:
        """Return a record of the ledger's topic."""
        return self.ledger, value, self.connector.encode(), None

    def carried(self, value: bytes | None, partition: int) -> Record:
        """Return a record of the offsets topic, or a tombstone."""
        return self.offsets, value, carried_key(self.connector, self.task, self.ledger), partition


@dataclass(frozen=True, slots=True)
class _Carry:
    """Encoded entries that are not in the ledger's topic yet, and the partitions of the offsets topic that carry them.

    `value` is a record of the entries. One that is made later also names the topics of all that was encoded since.
    No more is carried from `until_s` on.
    """

    encoder: RecordEncoder
    entries: tuple[bytes, ...] = ()
    value: bytes = b""
    partitions: frozenset[int] = frozenset()
    until_s: float = float("-inf")


class EntryCarry:
    """Makes records of the entries of one task."""

    def __init__(
        self, topics: LedgerTopics, most_bytes: int, limits: CarryLimits, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Make records of the ledger's topic of at most `most_bytes`, unless a single entry has more."""
        self._topics, self._most_bytes, self._limits, self._clock = topics, most_bytes, limits, clock
        self._newest = self._kept = _Carry(topics.encoder())

    def restart(self) -> None:
        """Begin with other producers, after committed entries. Their first entry is not carried: it names the topic."""
        self._newest = self._kept = replace(self._kept, until_s=float("-inf"))

    def inherit(self, carried: Iterable[tuple[int, bytes]]) -> None:
        """Begin at the end of the task's last start, which was fenced: with the entries that it still carried.

        `carried`: the values that the offsets topic has, with their partitions. Between two times that a task writes
        to the ledger's topic, what it carries only grows. So the longest is the last. But all entries are taken: a
        value may be older, and in the ledger, and its reader has missed the tombstone.
        """
        found: list[Sequence[LedgerEntry]] = []
        partitions = []
        for partition, value in carried:
            partitions.append(partition)
            try:
                found.append(LedgerRecord.of(value).entries)
            except LedgerFormatError as error:  # it must not keep the task from starting
                log.warning("entries of the ledger that %s carried are left out: %s", self._topics.connector, error)
        every = {each.id: each for entries in sorted(found, key=len) for each in entries}
        encoder = self._topics.encoder()
        encoded = tuple(map(encoder.encoded, every.values()))
        self._kept = _Carry(encoder, encoded, encoder.value(encoded), frozenset(partitions))
        self.restart()

    def try_carry(self, new: Sequence[LedgerEntry], partition: int) -> Record | None:
        """Return a record that carries everything in this partition; None if it must go to the ledger's topic now."""
        carry = self._newest
        if len(carry.entries) + len(new) > self._limits.entries or self._clock() >= carry.until_s:
            return None
        entries = (*carry.entries, *map(carry.encoder.encoded, new))
        value = carry.encoder.value(entries)
        if len(value) > min(self._limits.size_bytes, self._most_bytes):
            return None
        self._newest = replace(carry, entries=entries, value=value, partitions=carry.partitions | {partition})
        return self._topics.carried(value, partition)

    def written(self, new: Sequence[LedgerEntry]) -> list[Record]:
        """Return records of the ledger's topic with all entries, and tombstones for the carried ones."""
        carry, until_s = self._newest, self._clock() + self._limits.time_s
        self._newest = _Carry(self._topics.encoder(), until_s=until_s)
        values = [carry.encoder.value((*carry.entries, *map(carry.encoder.encoded, new)))]
        if len(values[0]) > self._most_bytes:  # divided, so that none names the topics of others
            encoders = [(self._topics.encoder(), each) for each in new]
            values = [carry.value] if carry.entries else []
            values += [encoder.value([encoder.encoded(each)]) for encoder, each in encoders]
        tombstones = [self._topics.carried(None, each) for each in sorted(carry.partitions)]
        return [*map(self._topics.written, values), *tombstones]

    def keep(self) -> None:
        """Keep the state of a transaction that is to be committed: if that fails, the task begins with `inherit`."""
        self._kept = self._newest

    def go_back(self) -> None:
        """Go back to the state that was kept, because a transaction was aborted."""
        self._newest = self._kept


_SHARE = 0.5
"""Of the largest record that the producer sends: so large may an entry be. By default these are the checksums of 3
million records, or the runs of 1,500 partitions. The rest is for what one more call sends before an entry is due."""


@dataclass(slots=True)
class _Numbers:
    """The numbers of one producer's entries: `next` is for its next entry, `kept` follows its last committed entry.

    An aborted entry is not visible, so its number is used again.
    """

    incarnation: str = field(default_factory=lambda: uuid.uuid4().hex)
    next: int = 0
    kept: int = 0


class TaskLedger:
    """Makes the entries of one task's producers, which write in turns. For the task's thread."""

    def __init__(
        self, spec: TaskSpec, limits: CarryLimits | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._spec = spec
        self._offsets_topic = spec.output.offsets_topic
        self._most_bytes = int(most_record_bytes(spec.output.producer_conf) * _SHARE)
        topics = LedgerTopics(spec.connector, spec.task, spec.commits.ledger_topic, self._offsets_topic)
        self._carry = EntryCarry(topics, self._most_bytes, limits or CarryLimits(), clock)
        self._numbers: dict[TransactionalWriter, _Numbers] = {}
        self._afters: dict[TopicPartition, tuple[str, int]] = {}  # topic ids and offsets that the last runs come after

    def restart(self) -> None:
        """Begin with other producers. Everything that was handed over is committed, or `inherit` follows."""
        self._numbers.clear()
        self._carry.restart()

    def inherit(self, carried: Iterable[tuple[int, bytes]]) -> None:
        """Begin with what the offsets topic carries, by partition: the task's last start was fenced, and left it."""
        self._numbers.clear()
        self._carry.inherit(carried)

    def is_due(self, writer: TransactionalWriter) -> bool:
        """Return whether an entry has to be written before the transaction ends."""
        return writer.runs is not None and writer.runs.blocks * BLOCK_BYTES >= self._most_bytes

    def take(self, writer: TransactionalWriter) -> OutgoingColumns | None:
        """Return the entries' records for what this producer has sent since the last call; None without new records."""
        new = self._new_entries(writer)
        return _columns(self._carry.written(new)) if new else None

    def end(self, writer: TransactionalWriter, offsets: OffsetRecords) -> OutgoingColumns | None:
        """Return the last records of a transaction: its source offsets, and those of `take`."""
        new = self._new_entries(writer)
        records: list[Record] = [(self._offsets_topic, value, key, None) for key, value in offsets]
        if not new:
            return _columns(records) if records else None
        assert writer.runs is not None
        partition = writer.runs.partition_of(self._offsets_topic, offsets[0][0]) if offsets else None
        carried = None if partition is None else self._carry.try_carry(new, partition)
        if carried is None:
            return _columns([*records, *self._carry.written(new)])
        is_one_place = len(records) == 1  # which makes both records a single step for the client
        return _columns([*records, carried], partition=partition if is_one_place else None)

    def _new_entries(self, writer: TransactionalWriter) -> Sequence[LedgerEntry]:
        runs = [] if writer.runs is None else [self._bounded(run) for run in writer.runs.take()]
        if not runs:
            return ()
        numbers = self._numbers.get(writer) or self._numbers.setdefault(writer, _Numbers())
        origin = Writer(self._spec.connector, self._spec.task, numbers.incarnation, writer.transactional_id)
        parts = parted(runs, self._most_bytes)
        entries = [LedgerEntry(origin, number, part) for number, part in enumerate(parts, numbers.next)]
        numbers.next += len(entries)
        return entries

    def _bounded(self, run: WrittenRun) -> WrittenRun:
        """Return the run with the last offset that it comes after, as far as any of the producers knows."""
        topic_id, after = self._afters.get(run.place, ("", -1))
        if topic_id == run.topic_id and after > run.after:  # the producers write in turns
            run = run._replace(after=after)
        self._afters[run.place] = run.topic_id, run.after
        return run

    def handed_over(self, writer: TransactionalWriter) -> None:
        """Keep the state of a transaction that is to be committed: if that fails, its producer is not used again."""
        self._carry.keep()
        if writer in self._numbers:
            self._numbers[writer].kept = self._numbers[writer].next

    def aborted(self, writer: TransactionalWriter) -> None:
        """Go back to the state before a transaction that was aborted before it was handed over."""
        self._carry.go_back()
        if writer in self._numbers:
            self._numbers[writer].next = self._numbers[writer].kept


def _columns(records: Sequence[Record], *, partition: int | None = None) -> OutgoingColumns:
    """Return records of one topic as columns. All go to `partition`, if it is given."""
    topics, values, keys, partitions = (list(column) for column in zip(*records, strict=True))
    if partition is not None:
        count = len(records)
        return OutgoingColumns(Repeated(topics[0], count), values, keys, Repeated(partition, count))
    return OutgoingColumns(topics, values, keys, None if all(each is None for each in partitions) else partitions)
