"""Totals that a task keeps and its slot reports; the worker turns them into metrics."""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from fencepost.record import distinct
from fencepost.task.channel.message import RunState
from fencepost.task.failure.tolerance import ErrorCounters


@dataclass
class ActiveRecords:
    """How many records are moved and neither committed nor aborted; `total` is summed over all times it was `taken`."""

    records: int = 0
    max: int = 0
    total: int = 0
    taken: int = 0

    def become(self, count: int) -> None:
        """Take the number of now."""
        self.records = count
        self.max = max(self.max, count)
        self.total += count
        self.taken += 1


@dataclass
class Counters:
    """Written by the task's thread and read by the slot's reporting thread; single values, so no lock.

    `last_record_s` and `last_commit_s` are seconds since 1970; both begin with the task's start.
    """

    state: RunState = RunState.STARTING
    records_polled: int = 0
    records_written: int = 0
    batches: int = 0
    batch_size_max: int = 0
    poll_time_max_s: float = 0.0
    poll_time_total_s: float = 0.0
    commits: int = 0
    commit_failures: int = 0
    commit_time_max_s: float = 0.0
    commit_time_total_s: float = 0.0
    aborts: int = 0
    in_transaction: int = 0
    transaction_size_min: int = 0
    transaction_size_max: int = 0
    transaction_size_total: int = 0
    active: ActiveRecords = field(default_factory=ActiveRecords)
    producers_retired: int = 0
    last_record_s: float = field(default_factory=time.time)
    last_commit_s: float = field(default_factory=time.time)
    errors: ErrorCounters = field(default_factory=ErrorCounters)
    topics: set[str] = field(default_factory=set)
    _topics_in_transaction: set[str] = field(default_factory=set)
    _dead_letters_in_transaction: int = 0
    _begun: deque[tuple[float, int, set[str], int]] = field(default_factory=deque)

    def polled(self, count: int, took_s: float) -> None:
        self.records_polled += count
        self.last_record_s = time.time()
        self.batches += 1
        self.batch_size_max = max(self.batch_size_max, count)
        self.poll_time_max_s = max(self.poll_time_max_s, took_s)
        self.poll_time_total_s += took_s

    def sent(self, count: int, topics: Sequence[str]) -> None:
        self.records_written += count
        self.in_transaction += count
        self.active.become(self.active.records + count)
        if count:
            self._topics_in_transaction.update(distinct(topics))

    def sent_dead_letters(self, count: int) -> None:
        """Add dead letters of a source; they are in the same transaction as the records sent."""
        self.errors.dead_letters += count
        self._dead_letters_in_transaction += count

    def commit_begun(self, now_s: float) -> None:
        """Record that a commit has begun: what was sent since the last call is one transaction."""
        transaction = now_s, self.in_transaction, set(self._topics_in_transaction), self._dead_letters_in_transaction
        self._begun.append(transaction)
        self._topics_in_transaction.clear()
        self.in_transaction = self._dead_letters_in_transaction = 0

    def committed(self, ended_s: float) -> None:
        """Record that the oldest open transaction was committed at `ended_s`, possibly a while ago."""
        begun_s, size, topics, _ = self._begun.popleft()
        took_s = ended_s - begun_s
        self.topics |= topics
        self.commits += 1
        self.last_commit_s = time.time() - (time.monotonic() - ended_s)
        self.commit_time_max_s = max(self.commit_time_max_s, took_s)
        self.commit_time_total_s += took_s
        self.active.become(self.active.records - size)
        self.transaction_size_min = min(self.transaction_size_min, size) if self.commits > 1 else size
        self.transaction_size_max = max(self.transaction_size_max, size)
        self.transaction_size_total += size

    def moved(self, count: int) -> None:
        """Add one or more splits that were read, written and committed."""
        self.records_polled += count
        self.records_written += count
        self.batches += 1
        self.commits += 1
        self.last_commit_s = time.time()
        if count:
            self.last_record_s = self.last_commit_s

    def used_topics(self) -> None:
        """Count the topics of what was sent as the connector's: the records are in them."""
        self.topics |= self._topics_in_transaction
        self._topics_in_transaction.clear()

    def commit_failed(self) -> None:
        self.commit_failures += 1

    def dropped(self) -> None:
        """Record that what was sent and not committed never will be, as its producer is gone."""
        self.errors.dead_letter_failures += (
            sum(letters for *_, letters in self._begun) + self._dead_letters_in_transaction
        )
        self._begun.clear()
        self._topics_in_transaction.clear()
        self.in_transaction = self.active.records = self._dead_letters_in_transaction = 0

    def aborted(self) -> None:
        self.aborts += 1
        self._topics_in_transaction.clear()
        self.in_transaction = self.active.records = self._dead_letters_in_transaction = 0

    def to_json(self) -> dict[str, float]:
        """Return the totals by name."""
        own = {k: v for k, v in vars(self).items() if isinstance(v, int | float) and not k.startswith("_")}
        active = {f"active_{k}": v for k, v in vars(self.active).items()}
        return {**own, **active, **{f"error_{k}": v for k, v in vars(self.errors).items()}}


@dataclass
class SinkCounters(Counters):
    """The additional totals of a sink's task; a poll is a call of `put` here.

    `lag_max` is the lag of the partition with the most, in records.
    """

    partition_count: int = 0
    lag_max: int = 0


@dataclass
class StreamCounters(SinkCounters):
    """The additional totals of a stream's task; a poll is a call of `process` here.

    `producers_fenced` counts others' producers that had its input; `is_waiting_for_offsets` is 1 while it waits for
    offsets.
    """

    producers_fenced: int = 0
    is_waiting_for_offsets: int = 0
