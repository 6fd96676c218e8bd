"""The entries that a task writes to its ledger, in the transactions that they describe.

An entry is in a record of the same transaction as those that it describes (E1): if it cannot be written, the
transaction is not committed; a fenced task writes none that is visible; and what is aborted has none.
"""

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from fencepost.kafka.codec.run_digest import WrittenRun
from fencepost.kafka.setting.client_settings import most_record_bytes
from fencepost.ledger.entry import BLOCK_BYTES, LedgerEntry, Writer, parted
from fencepost.record import Repeated, TopicPartition
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.delivery.carry import CarryLimits, EntryCarry, LedgerTopics, Record
from fencepost.task.delivery.finish import OffsetRecords
from fencepost.task.delivery.outgoing import OutgoingColumns
from fencepost.transaction import TransactionalWriter

_SHARE = 0.5
"""Of the largest record that the producer sends: so large may an entry be. By default these are the checksums of 3
million records, or the runs of 1,500 partitions. The rest is for what one more call sends before an entry is due."""


@dataclass(slots=True)
class _Numbers:
    """How the entries of one producer are numbered: `next` is that of its next one, `kept` that after its last commit.

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
        """Return the records for what this producer has sent since the last call; None if that is nothing."""
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
    """Return records as columns. `partition` is that of all of them, which are of one topic; None if there is none."""
    topics, values, keys, partitions = (list(column) for column in zip(*records, strict=True))
    if partition is not None:
        count = len(records)
        return OutgoingColumns(Repeated(topics[0], count), values, keys, Repeated(partition, count))
    return OutgoingColumns(topics, values, keys, None if all(each is None for each in partitions) else partitions)
