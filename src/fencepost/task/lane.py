"""How one lane carries a transaction to its commit, beside another one (decision 0011).

A transaction, once the task has handed it over, goes these steps; `before` is the one handed over before it:

1. `before` is flushed: all its records are in the log, so that these come behind them, and so are the offsets of a
   group, where that keeps them: of two transactions its coordinator keeps what came to it last;
2. flush, and the offsets of the group meanwhile;
3. what the task adds now that it is known where its records went (`Finish`) is flushed, behind what it added to
   `before`;
4. `before` is committed: a transaction is never visible without all those before it;
5. commit.

Up to step 1 its records may wait in the producer's own queue, which lets nothing out by itself for a time (`Room`).
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from fencepost.api import RetriableError
from fencepost.kafka.produce.clients import sends_batches
from fencepost.kafka.setting.client_settings import transaction_timeout_ms
from fencepost.task.finish import Finish
from fencepost.transaction import TransactionalWriter

log = logging.getLogger(__name__)

# The coordinator answers a commit before it has written the markers, and refuses a new transaction of the same id until
# then; librdkafka tries again after 20 ms. Measured: 2 to 50 % of the transactions without a rest, under 2 % with it.
_REST_S = 0.001
_SHORTEST_TIMEOUT_MS = 10_000
_RECORD_TIMEOUT_MS = 300_000  # librdkafka's, also where a transaction may take longer

HELD_BYTES = 768 * 1024
"""How much one lane queues while the other is flushed: what fits in one request, so that its flush has nothing else to
wait for (`ProducerClient.flush`). Larger transactions keep one lane busy by themselves."""

HELD_COLUMNS_BYTES = 8 * 1024 * 1024
"""The same for the batch client, which has no thread that sends: what waits are columns that the task has made anyway,
and the lane's thread makes batches of them while the task polls. Larger transactions go on once the lane before is
flushed."""


def held_bytes(conf: Mapping[str, Any]) -> int:
    """Return how much a lane may queue while the other is flushed, by the client that `conf` chooses."""
    return HELD_COLUMNS_BYTES if sends_batches(conf) else HELD_BYTES


class EarlierTransactionError(RetriableError):
    """The transaction before this one did not end well, or not in time, so this one must not be committed."""


@dataclass(frozen=True)
class Room:
    """What a producer's queue holds back: the client makes no batch before one of these is reached, or a flush.

    https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md: batch.size, batch.num.messages, linger.ms
    """

    size_bytes: int = 0
    records: int = 0
    time_s: float = 0.0

    @classmethod
    def made_in(cls, conf: dict[str, Any], size_bytes: int | None = None, batch_bytes: int | None = None) -> "Room":
        """Change the settings of a producer so that it holds that much back, or less where its queue is smaller.

        `batch_bytes` is a bound that its batches have to keep, the user's or a topic's: it holds back no more then.
        Waiting costs nothing: records of a transaction are visible at its commit, which flushes them. librdkafka wants
        `linger.ms` to be below the time-out of a record, which is at most that of the transaction.
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


class Held:
    """Records that wait in a producer's queue for the transaction before theirs to be flushed."""

    def __init__(self, time_s: float) -> None:
        """Begin to count: the records are held from now on, for `time_s`."""
        self._until_s = time.monotonic() + time_s

    def ensure_held(self) -> None:
        """Raise EarlierTransactionError where they may have been sent: a machine that slept, a broker that was away."""
        if time.monotonic() >= self._until_s:
            raise EarlierTransactionError("the transaction before this one took too long to be flushed")


class Turn:
    """One transaction that the task is done with, on its way to its commit."""

    def __init__(
        self,
        writer: TransactionalWriter,
        before: "Turn | None",
        held: "Held | None" = None,
        finish: Finish | None = None,
        *,
        size_bytes: int = 0,
        begun_s: float = 0.0,
    ) -> None:
        self._writer = writer
        self._finish = finish or Finish()
        self._before = before
        self._held = held
        self._flushed = threading.Event()
        self._told = threading.Event()
        self._done = threading.Event()
        self.error: BaseException | None = None
        self.is_struck = False
        self.size_bytes = size_bytes
        self._begun_s = begun_s
        self.ended_s = self.took_s = 0.0

    @property
    def is_done(self) -> bool:
        """Say whether the steps are over, well or not."""
        return self._done.is_set()

    @property
    def is_committed(self) -> bool:
        return self._done.is_set() and self.error is None

    @property
    def is_flushed(self) -> bool:
        return self._flushed.is_set() and self.error is None

    def run(self) -> None:
        """Go the steps. Never raises: `error` holds what went wrong."""
        try:
            if self._before is not None:
                self._before.await_flushed()  # 1
            if self._held is not None:
                self._held.ensure_held()
            self._finish.begin(self._writer)  # 2, E18
            self._writer.flush()
            self._finish.await_offsets(self._writer)
            self._flushed.set()
            if self._before is not None:
                self._before.await_told()
            self._finish.send(self._writer)  # 3
            self._told.set()
            if self._before is not None:
                self._before.await_committed()  # 4
            self._writer.commit()  # 5
            self.is_struck = self._writer.is_struck
        except BaseException as error:  # of `SourceTask.closing`, too: what is not committed must not count as such
            self.error = error
        finally:
            self._before = None  # else every transaction would keep all those before it
            self.ended_s = time.monotonic()
            self.took_s = self.ended_s - self._begun_s
            for step in (self._done, self._told, self._flushed):
                step.set()

    def await_flushed(self) -> None:
        """Wait until its records are in the log, and its positions in the transaction.

        Like the others, raises EarlierTransactionError where that may never be so.
        """
        self._flushed.wait()
        self._raise_if_failed()

    def await_told(self) -> None:
        """Wait until what the task added to it is in the log, too."""
        self._told.wait()
        self._raise_if_failed()

    def await_committed(self) -> None:
        """Wait until it is committed."""
        self._done.wait()
        self._raise_if_failed()

    def await_done(self) -> None:
        """Wait until the steps are over, well or not."""
        self._done.wait()

    def _raise_if_failed(self) -> None:
        if self.error is not None:
            raise EarlierTransactionError(f"an earlier transaction was not committed: {self.error}") from None


class Lane:
    """One producer, and a thread that carries its transactions to their commits. The two never use it at once."""

    def __init__(self, writer: TransactionalWriter) -> None:
        self.writer = writer
        self._queue: SimpleQueue[Turn | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._turn: Turn | None = None
        self._closing = threading.Lock()
        self._is_closed = False
        self._is_told = False

    @property
    def is_busy(self) -> bool:
        return self._turn is not None and not self._turn.is_done

    def hand_over(self, turn: Turn, on_failure: Callable[[], None]) -> None:
        """Let the lane's thread run `turn`; where there is none, the caller's.

        One that is gone was closed, and so is its writer, which commits nothing.
        """
        with self._closing:
            has_thread = not self._is_closed and self._try_start(on_failure)
            if has_thread:
                self._turn = turn
                self._queue.put(turn)
        if not has_thread:
            self.run(turn)

    def _try_start(self, on_failure: Callable[[], None]) -> bool:
        """Start the lane's thread once. Returns False where this machine gives no more threads just now."""
        if self._thread is None:
            name = f"{threading.current_thread().name}-lane"
            thread = threading.Thread(target=self._run, args=(on_failure,), name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                level = logging.DEBUG if self._is_told else logging.WARNING
                log.log(level, "%s: %s; its commits are waited for", name, error)
                self._is_told = True
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
            if left_s > 0:  # to sleep for nothing takes a tenth of a millisecond, too
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
            del turn  # an error's traceback would keep a dropped producer alive, and sending (E6)
