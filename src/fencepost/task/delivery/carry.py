"""Which topic a task's entries go to: its ledger's, or for a while that of its source offsets.

One more partition makes a small transaction dearer. So entries are *carried*: each transaction writes all that are not
in the ledger's topic yet into the partition of its source offsets, where the newest such record replaces the others.
Soon a transaction writes them to the ledger's topic, and tombstones where they were. If the task dies in between, they
remain in the offsets topic: audits read them there, and its next start writes them to the ledger first.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from fencepost.ledger.carried import carried_key
from fencepost.ledger.entry import LedgerEntry, LedgerFormatError, LedgerRecord, RecordEncoder

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
    """What is not in the ledger's topic yet, encoded, and the partitions of the offsets topic that have some of it.

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
        """Begin with other producers, after what was kept. Their first entry is not carried: it names the topic."""
        self._newest = self._kept = replace(self._kept, until_s=float("-inf"))

    def inherit(self, carried: Iterable[tuple[int, bytes]]) -> None:
        """Begin where the last start of the task has ended, after it was fenced: with what it still carried.

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
        """Return records of the ledger's topic with everything, and tombstones for what was carried."""
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
