"""The entries that a task writes to its ledger, in the transactions that they describe.

An entry is a record of the same transaction as those that it describes (E1): if it cannot be written, the transaction
is not committed; a fenced task writes none that is visible; and what is aborted has none.
"""

import uuid
from collections.abc import Collection
from dataclasses import dataclass, field

from fencepost.kafka.codec.run_digest import WrittenRun
from fencepost.kafka.setting.client_settings import most_record_bytes
from fencepost.ledger.entry import BLOCK_BYTES, LedgerEntry, Writer, parted
from fencepost.record import TopicPartition
from fencepost.task.channel.task_spec import TaskSpec
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
    """Makes the entries of one delivery's producers."""

    def __init__(self, spec: TaskSpec) -> None:
        self._spec = spec
        self.topic = spec.commits.ledger_topic
        self._most_bytes = int(most_record_bytes(spec.output.producer_conf) * _SHARE)
        self._others: Collection[str] = {self.topic, spec.output.offsets_topic}  # the ledger itself, or compacted
        self._numbers: dict[TransactionalWriter, _Numbers] = {}
        self._afters: dict[TopicPartition, tuple[str, int]] = {}  # topic ids and offsets that the last runs come after

    def is_due(self, writer: TransactionalWriter) -> bool:
        """Return whether an entry has to be written before the transaction ends."""
        return writer.runs is not None and writer.runs.blocks * BLOCK_BYTES >= self._most_bytes

    def take(self, writer: TransactionalWriter) -> OutgoingColumns | None:
        """Return the entries of what this producer has sent since the last call; None if that is nothing."""
        taken = () if writer.runs is None else writer.runs.take()
        runs = [self._bounded(run) for run in taken if run.place.topic not in self._others]
        if not runs:
            return None
        numbers = self._numbers.setdefault(writer, _Numbers())
        origin = Writer(self._spec.connector, self._spec.task, numbers.incarnation, writer.transactional_id)
        parts = parted(runs, self._most_bytes)
        entries = [LedgerEntry(origin, number, part) for number, part in enumerate(parts, numbers.next)]
        numbers.next += len(entries)
        topics, values = [self.topic] * len(entries), [entry.value() for entry in entries]
        return OutgoingColumns(topics, values, [entry.key() for entry in entries])

    def _bounded(self, run: WrittenRun) -> WrittenRun:
        """Return the run with the last offset that it comes after, as far as any of the producers knows."""
        topic_id, after = self._afters.get(run.place, ("", -1))
        if topic_id == run.topic_id and after > run.after:  # the producers write in turns
            run = run._replace(after=after)
        self._afters[run.place] = run.topic_id, run.after
        return run

    def handed_over(self, writer: TransactionalWriter) -> None:
        """Keep the numbers of a transaction that is to be committed: if that fails, its producer is not used again."""
        if writer in self._numbers:
            self._numbers[writer].kept = self._numbers[writer].next

    def aborted(self, writer: TransactionalWriter) -> None:
        """Use the numbers of a transaction again that was aborted before it was handed over."""
        if writer in self._numbers:
            self._numbers[writer].next = self._numbers[writer].kept
