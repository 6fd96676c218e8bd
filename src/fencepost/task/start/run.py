"""The state that the parts of a running task share: its spec, what it counts, and its current delivery."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from fencepost.kafka.setting.client_settings import most_record_bytes
from fencepost.record import distinct
from fencepost.task.channel.message import RunState
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control
from fencepost.task.delivery.delivery import Delivery, OnDelivered
from fencepost.task.delivery.outgoing import Outgoing, with_its_place
from fencepost.task.failure.tolerance import ErrorCounters
from fencepost.task.tracing.tracing import NO_TRACING, Tracing
from fencepost.transaction import ProduceError


class _Begun(NamedTuple):
    """Records of a commit that has not ended; `since_s`: when the first one was sent, 0 without records."""

    begun_s: float
    size: int
    topics: set[str]
    dead_letters: int
    since_s: float


@dataclass
class Uncommitted:
    """Records that were sent and are not committed; `topics` and `dead_letters` belong to the current transaction."""

    topics: set[str] = field(default_factory=set)
    dead_letters: int = 0
    sent_since_s: float = 0.0
    begun: deque[_Begun] = field(default_factory=deque)

    @property
    def since_s(self) -> float:
        """Return when the oldest record was sent, in seconds since 1970; 0 without records."""
        return next((each.since_s for each in self.begun if each.since_s), self.sent_since_s)

    def sent(self) -> None:
        self.sent_since_s = self.sent_since_s or time.time()

    def commit_begun(self, now_s: float, size: int) -> None:
        """Record that a commit has begun of everything that was sent since the last call."""
        self.begun.append(_Begun(now_s, size, self.topics, self.dead_letters, self.sent_since_s))
        self.topics, self.dead_letters, self.sent_since_s = set(), 0, 0.0

    def clear(self) -> None:
        """Forget the records of the current transaction, which is aborted."""
        self.topics.clear()
        self.dead_letters, self.sent_since_s = 0, 0.0


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

    `started_s`, `last_record_s` and `last_commit_s` are seconds since 1970; all begin with the task's start.
    `open_since_s` is when the oldest record was sent that is not committed yet; 0: all are.
    """

    started_s: float = field(default_factory=time.time)
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
    open_since_s: float = 0.0
    errors: ErrorCounters = field(default_factory=ErrorCounters)
    topics: set[str] = field(default_factory=set)
    _open: Uncommitted = field(default_factory=Uncommitted)

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
            self._open.topics.update(distinct(topics))
            self._opened()

    def sent_dead_letters(self, count: int) -> None:
        """Add dead letters of a source; they are in the same transaction as the records sent."""
        self.errors.dead_letters += count
        self._open.dead_letters += count
        self._opened()

    def _opened(self) -> None:
        self._open.sent()
        self.open_since_s = self.open_since_s or self._open.sent_since_s

    def commit_begun(self, now_s: float) -> None:
        """Record that a commit has begun: the records sent since the last call are one transaction."""
        self._open.commit_begun(now_s, self.in_transaction)
        self.in_transaction = 0

    def committed(self, ended_s: float) -> None:
        """Record that the oldest open transaction was committed at `ended_s`, possibly a while ago."""
        begun_s, size, topics, *_ = self._open.begun.popleft()
        took_s = ended_s - begun_s
        self.open_since_s = self._open.since_s
        self.topics |= topics
        self.commits += 1
        self.last_commit_s = time.time() - (time.monotonic() - ended_s)
        self.commit_time_max_s = max(self.commit_time_max_s, took_s)
        self.commit_time_total_s += took_s
        self.active.become(self.active.records - size)
        self._count_size(size)

    def moved(self, *sizes: int) -> None:
        """Add the records that Spark has read, written and committed, by transaction."""
        count = sum(sizes)
        self.records_polled += count
        self.records_written += count
        self.batches += 1
        for size in sizes:
            self.commits += 1
            self._count_size(size)
        self.last_commit_s = time.time()
        if count:
            self.last_record_s = self.last_commit_s

    def _count_size(self, size: int) -> None:
        self.transaction_size_min = min(self.transaction_size_min, size) if self.commits > 1 else size
        self.transaction_size_max = max(self.transaction_size_max, size)
        self.transaction_size_total += size

    def used_topics(self) -> None:
        """Count the topics of the sent records as the connector's: the records are in them."""
        self.topics |= self._open.topics
        self._open.topics.clear()

    def commit_failed(self) -> None:
        self.commit_failures += 1

    def dropped(self) -> None:
        """Record that the uncommitted records never will be committed, as their producer is gone."""
        self.errors.dead_letter_failures += sum(each.dead_letters for each in self._open.begun)
        self.errors.dead_letter_failures += self._open.dead_letters
        self._open.begun.clear()
        self._nothing_is_open()

    def aborted(self) -> None:
        self.aborts += 1
        self._nothing_is_open()

    def _nothing_is_open(self) -> None:
        self._open.clear()
        self.in_transaction = self.active.records = 0
        self.open_since_s = 0.0

    def to_json(self) -> dict[str, float]:
        """Return the totals by name."""
        own = {k: v for k, v in vars(self).items() if isinstance(v, int | float) and not k.startswith("_")}
        active = {f"active_{k}": v for k, v in vars(self.active).items()}
        return {**own, **active, **{f"error_{k}": v for k, v in vars(self.errors).items() if isinstance(v, int)}}


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


@dataclass
class QueryCounters(StreamCounters):
    """The additional totals of a streaming query; a poll is a batch here.

    `query_batch` is the number of the last batch with rows, -1 before the first. `query_rows_per_s` and
    `query_batch_time_s` are those of that batch. `query_watermark_s`, in seconds since 1970, is 0 without a watermark.
    """

    query_batch: int = -1
    query_rows_per_s: float = 0.0
    query_batch_time_s: float = 0.0
    query_watermark_s: float = 0.0
    query_state_rows: int = 0

    def batch_written(self, number: int, rows: int, rows_read: int, rows_per_s: float, took_s: float) -> None:
        """Add a batch: its records that were read, and the rows that were written of them in one transaction."""
        self.moved(rows)
        self.records_polled += rows_read - rows
        self.batch_size_max = max(self.batch_size_max, rows_read)
        self.poll_time_max_s = max(self.poll_time_max_s, took_s)
        self.poll_time_total_s += took_s
        self.query_batch, self.query_rows_per_s, self.query_batch_time_s = number, rows_per_s, took_s


C_co = TypeVar("C_co", bound=Counters, covariant=True)


@dataclass(frozen=True)
class TaskRun(Generic[C_co]):
    """One start of a task: its spec, the worker's requests to it, and its reports to the worker."""

    spec: TaskSpec
    control: Control
    counters: C_co
    report_state: Callable[[RunState], None]
    tracing: Tracing = NO_TRACING

    def commit_begun(self, begun_s: float) -> None:
        """Record that a commit has begun: the records sent since the last call are one transaction."""
        self.counters.commit_begun(begun_s)
        self.tracing.commit_begun(begun_s)

    def committed(self, ended_s: float) -> None:
        """Record that the oldest open transaction was committed at `ended_s`, possibly a while ago.

        The first time, the worker hears of it at once: it suspects no task that has committed (`suspicion.py`).
        """
        self.counters.committed(ended_s)
        self.tracing.committed(ended_s)
        if self.counters.commits == 1:
            self.report_state(self.counters.state)


D = TypeVar("D", bound=Delivery)


class CurrentDelivery(Generic[D]):
    """The delivery that one task instance uses now. Used by the task's thread.

    `on_committed` is called for each commit that has succeeded, in order.
    """

    delivery: D

    def __init__(self, run: TaskRun[Counters], replace: Callable[[], D], on_committed: Callable[[], None]) -> None:
        """`replace` retires the delivery and returns its admitted successor (E5)."""
        self._run = run
        self._replace = replace
        self._on_committed = on_committed
        self._has_failed = False

    def ensure_ready(self) -> None:
        """Wait until a transaction can begin, in another delivery if necessary."""
        if not self.delivery.is_ready():
            self.replace()

    def replace(self) -> None:
        self.learn(wait=True)
        self.delivery = self._replace()

    def send(self, outgoing: Outgoing, origin: Callable[[int], str], on_delivered: OnDelivered | None = None) -> None:
        """Send records in order. An error names one that is too large by its `origin`. Raises ProduceError."""
        try:
            self.delivery.send(outgoing, on_delivered)
        except ProduceError as error:
            most_bytes = most_record_bytes(self._run.spec.output.producer_conf)
            raise with_its_place(error, outgoing, most_bytes, origin) from None

    def learn(self, *, wait: bool) -> None:
        """Handle the commits that have ended. Raises the error of a failed one, after all before it are handled."""
        while True:
            try:
                ended_s = self.delivery.finished(wait=wait)
            except BaseException as error:
                self.commit_failed(error)
                raise
            for one_s in ended_s:
                self._run.committed(one_s)
                self._on_committed()
            if not ended_s:
                return

    def commit_failed(self, error: BaseException) -> None:
        """Count a failed commit, once: later ones fail with it."""
        if not self._has_failed:
            self._has_failed = True
            self._run.counters.commit_failed()
            self._run.tracing.commit_failed(error)
