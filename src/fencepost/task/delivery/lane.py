"""How one lane takes a transaction to its commit while another lane may do the same (decision 0011).

After the task hands a transaction over, these steps run. `before` is the transaction handed over before it:

1. Wait until `before` is flushed. Its records are then in the log, so these come after them. The same holds for the
   offsets of a group, where a group keeps them: its coordinator keeps the offsets that reached it last.
2. Flush, and send the offsets of the group at the same time.
3. Flush what the task adds once it knows where its records went (`Finish`), after what it added to `before`.
4. Wait until `before` is committed: a transaction never becomes visible before an earlier one.
5. Commit.

Until step 1 ends, its records may wait in the producer's own queue, which for a time sends nothing by itself
(`QueueLimits`).
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum, auto
from queue import SimpleQueue
from typing import Any

from fencepost.api import RetriableError
from fencepost.kafka.produce.producer import sends_batches
from fencepost.kafka.setting.client_settings import transaction_timeout_ms
from fencepost.task.delivery.finish import Finish
from fencepost.task.delivery.outgoing import OutgoingColumns
from fencepost.transaction import TransactionalWriter

log = logging.getLogger(__name__)

# The coordinator answers a commit before it has written the markers, and until then refuses a new transaction of the
# same id; librdkafka retries after 20 ms. Measured: 2 to 50 % of the transactions without this pause, under 2 % with
# it.
_REST_S = 0.001
_SHORTEST_TIMEOUT_MS = 10_000
_RECORD_TIMEOUT_MS = 300_000  # librdkafka's, also where a transaction may take longer

HELD_BYTES = 768 * 1024
"""How much one lane queues while the other is flushed. It fits in one request, so that its own flush waits for nothing
else (`ProducerClient.flush`). Larger transactions keep one lane busy by themselves."""

HELD_COLUMNS_BYTES = 8 * 1024 * 1024
"""The same limit for the batch client, which has no sender thread. What waits are columns that the task has built
anyway; the lane's thread encodes them into batches while the task polls. Larger transactions continue once the lane
before is flushed."""


def held_bytes(conf: Mapping[str, Any]) -> int:
    """Return how much a lane may queue while the other is flushed, given the client that `conf` chooses."""
    return HELD_COLUMNS_BYTES if sends_batches(conf) else HELD_BYTES


class EarlierTransactionError(RetriableError):
    """The transaction before this one failed, or took too long, so this one must not be committed."""


@dataclass(frozen=True)
class QueueLimits:
    """Limits below which a producer keeps records in its queue: it builds no batch until one is reached, or a flush.

    https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md: batch.size, batch.num.messages, linger.ms
    """

    size_bytes: int = 0
    records: int = 0
    time_s: float = 0.0

    @classmethod
    def made_in(
        cls, conf: dict[str, Any], size_bytes: int | None = None, batch_bytes: int | None = None
    ) -> "QueueLimits":
        """Change a producer's settings so that it holds back this much, or less where its queue is smaller.

        `batch_bytes` is an upper bound for its batches, set by the user or by a topic; the producer then holds back no
        more than that. Waiting costs nothing: the records of a transaction become visible at its commit, which flushes
        them. librdkafka requires `linger.ms` to be below the timeout of a record, which is at most that of the
        transaction.
        """
        timeout_ms = transaction_timeout_ms(conf)
        if timeout_ms < _SHORTEST_TIMEOUT_MS:
            return cls()
        linger_ms = conf["linger.ms"] = min(timeout_ms, _RECORD_TIMEOUT_MS) - 1_000
        if size_bytes is None:
            size_bytes = held_bytes(conf)
        size_bytes = min(size_bytes, int(conf["queue.buffering.max.kbytes"]) * 512)
        if batch_bytes is not None:
            size_bytes = min(size_bytes, batch_bytes)
        conf["batch.size"] = size_bytes if batch_bytes is None else batch_bytes
        return cls(
            size_bytes,
            min(int(conf["batch.num.messages"]), int(conf["queue.buffering.max.messages"]) // 2),
            linger_ms / 1000 - 1.0,
        )


class HeldRecords:
    """Records that wait in a producer's queue for the transaction before theirs to be flushed."""

    def __init__(self, time_s: float) -> None:
        """Start the clock: the records are held from now on, for `time_s`."""
        self._until_s = time.monotonic() + time_s

    def ensure_held(self) -> None:
        """Raise EarlierTransactionError if they may have been sent, as after a machine slept or a broker was away."""
        if time.monotonic() >= self._until_s:
            raise EarlierTransactionError("the transaction before this one took too long to be flushed")


class HeldQueue:
    """Records of the current transaction that a producer holds back while the transaction before is flushed."""

    def __init__(self, limits: QueueLimits) -> None:
        self.limits = limits
        self._bytes_left = self._records_left = 0
        self._held: HeldRecords | None = None

    def begin(self) -> None:
        """Begin with another transaction."""
        self._bytes_left, self._records_left = self.limits.size_bytes, self.limits.records

    def add(self, outgoing: OutgoingColumns) -> int:
        """Return how many of the first records the producer will hold back, and count them."""
        most = max(0, min(len(outgoing), self._records_left - 1))
        count, size_bytes = outgoing.fitting(most, self._bytes_left)
        self._bytes_left -= size_bytes
        self._records_left -= count
        if count:
            self._held = self._held or HeldRecords(self.limits.time_s)
        return count

    def release(self) -> None:
        """Hold back no more. Raises EarlierTransactionError if records may have been sent too early."""
        if self._held is not None:
            self._held.ensure_held()
            self._held = None

    def take(self) -> HeldRecords | None:
        """Empty the queue, and return its records."""
        held, self._held = self._held, None
        return held


@dataclass(slots=True)
class TransactionExtent:
    """Roughly how large a transaction is, and when it began (`time.monotonic`)."""

    begun_s: float = 0.0
    size_bytes: int = 0


class Step(IntEnum):
    """A step of a transaction that was handed over."""

    BEGUN = auto()
    FLUSHED = auto()  # its records are in the log and its positions are in the transaction
    ADDED = auto()  # the records that the task added to it are in the log, too
    DONE = auto()  # committed, or failed


class StepProgress:
    """The steps that a transaction has reached. For several threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._step = Step.BEGUN
        self.error: BaseException | None = None

    def reach(self, step: Step) -> None:
        with self._changed:
            self._step = step
            self._changed.notify_all()

    def has_reached(self, step: Step) -> bool:
        """Say whether a step is over, whether or not it succeeded."""
        return self._step >= step

    def wait(self, step: Step) -> None:
        """Wait until a step is over, whether or not it succeeded."""
        with self._changed:
            self._changed.wait_for(lambda: self._step >= step)

    def await_success(self, step: Step) -> None:
        """Wait until a step is over. Raises EarlierTransactionError if the transaction has failed."""
        self.wait(step)
        if self.error is not None:
            raise EarlierTransactionError(f"an earlier transaction was not committed: {self.error}") from None


class Turn:
    """One transaction that the task has handed over, on its way to its commit."""

    def __init__(
        self,
        writer: TransactionalWriter,
        before: "Turn | None",
        held: HeldRecords | None = None,
        finish: Finish | None = None,
        sent: TransactionExtent | None = None,
    ) -> None:
        self._writer = writer
        self._finish = finish or Finish()
        self._before = before
        self._held = held
        self._progress = StepProgress()
        self.sent = sent or TransactionExtent()
        self.is_struck = False
        self.ended_s = 0.0

    @property
    def error(self) -> BaseException | None:
        """Return the exception of the step that failed, if one has."""
        return self._progress.error

    @property
    def took_s(self) -> float:
        return self.ended_s - self.sent.begun_s

    @property
    def is_done(self) -> bool:
        """Say whether the steps are over, whether or not they succeeded."""
        return self._progress.has_reached(Step.DONE)

    @property
    def is_committed(self) -> bool:
        return self.is_done and self.error is None

    @property
    def is_flushed(self) -> bool:
        return self._progress.has_reached(Step.FLUSHED) and self.error is None

    def run(self) -> None:
        """Run the commit steps. Never raises: `error` holds the exception of a step that failed."""
        try:
            if self._before is not None:
                self._before.await_flushed()  # 1
            if self._held is not None:
                self._held.ensure_held()
            self._finish.begin(self._writer)  # 2, E18
            self._writer.flush()
            self._finish.await_offsets(self._writer)
            self._progress.reach(Step.FLUSHED)
            if self._before is not None:
                self._before.await_additions()
            self._finish.send(self._writer)  # 3
            self._progress.reach(Step.ADDED)
            if self._before is not None:
                self._before.await_committed()  # 4
            self._writer.commit()  # 5
            self.is_struck = self._writer.is_struck
        except BaseException as error:  # also from `MirrorTask.closing`: it must not count as committed
            self._progress.error = error
        finally:
            self._before = None  # else every transaction would keep all earlier ones in memory
            self.ended_s = time.monotonic()
            self._progress.reach(Step.DONE)

    def await_flushed(self) -> None:
        """Wait until its records are in the log and its positions are in the transaction.

        Like the other waits, raises EarlierTransactionError if that may never happen.
        """
        self._progress.await_success(Step.FLUSHED)

    def await_additions(self) -> None:
        """Wait until the records that the task added to it are in the log, too."""
        self._progress.await_success(Step.ADDED)

    def await_committed(self) -> None:
        """Wait until it is committed."""
        self._progress.await_success(Step.DONE)

    def await_done(self) -> None:
        """Wait until the steps are over, whether or not they succeeded."""
        self._progress.wait(Step.DONE)


class Lane:
    """One producer, and a thread that takes its transactions to their commits. Task and thread never use it at once."""

    def __init__(self, writer: TransactionalWriter) -> None:
        self.writer = writer
        self._queue: SimpleQueue[Turn | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._turn: Turn | None = None
        self._closing = threading.Lock()
        self._is_closed = False
        self._is_logged = False

    @property
    def is_busy(self) -> bool:
        return self._turn is not None and not self._turn.is_done

    def hand_over(self, turn: Turn, on_failure: Callable[[], None]) -> None:
        """Let the lane's thread run `turn`; run it in the caller's thread if the lane has none.

        A closed lane has no thread, and its closed writer commits nothing.
        """
        with self._closing:
            has_thread = not self._is_closed and self._try_start(on_failure)
            if has_thread:
                self._turn = turn
                self._queue.put(turn)
        if not has_thread:
            self.run(turn)

    def _try_start(self, on_failure: Callable[[], None]) -> bool:
        """Start the lane's thread once. Returns False if this machine allows no more threads at the moment."""
        if self._thread is None:
            name = f"{threading.current_thread().name}-lane"
            thread = threading.Thread(target=self._run, args=(on_failure,), name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                level = logging.DEBUG if self._is_logged else logging.WARNING
                log.log(level, "%s: %s; the task waits for each of its commits", name, error)
                self._is_logged = True
                return False
            self._thread = thread
        return True

    def run(self, turn: Turn) -> None:
        """Run `turn` in the caller's thread."""
        self._turn = turn
        turn.run()

    def await_idle(self) -> None:
        """Wait until a transaction can begin."""
        if self._turn is not None:
            self._turn.await_done()
            left_s = self._turn.ended_s + _REST_S - time.monotonic()
            if left_s > 0:  # even sleeping for zero seconds takes a tenth of a millisecond
                time.sleep(left_s)

    def close(self) -> None:
        with self._closing:
            self._is_closed = True
            self._queue.put(None)
        self.writer.close()

    def _run(self, on_failure: Callable[[], None]) -> None:
        while (turn := self._queue.get()) is not None:
            turn.run()
            if turn.error is not None:
                on_failure()
            del turn  # an error's traceback would keep a dropped producer alive, and it would go on sending (E6)
