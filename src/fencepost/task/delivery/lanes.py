"""One or two producers of a task that take turns, so that one sends while the other commits (decision 0011).

An error of one transaction fails all later ones, and both producers are replaced.

How large a task's transactions may be so that each ends before the broker times it out.

How fast records reach the cluster is unknown until some have. So transactions begin small enough for slow links, and
grow as long as they are quick. One that took half of its timeout makes the next ones smaller; one that timed out makes
them much smaller.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fencepost.kafka.value.position import GroupOffset
from fencepost.task.delivery.delivery import Delivery, OnDelivered, PlainDelivery, send_outgoing
from fencepost.task.delivery.finish import Closing, Finish, GroupPositions, OffsetPlaces, OffsetRecords
from fencepost.task.delivery.lane import HeldQueue, HeldRecords, Lane, QueueLimits, TransactionExtent, Turn
from fencepost.task.delivery.outgoing import Outgoing, OutgoingColumns
from fencepost.transaction import ProduceError, TransactionalWriter, WriterFencedError, lane_ids, open_lanes
from fencepost.transaction.input_fence import Signature

if TYPE_CHECKING:
    from fencepost.task.delivery.ledger import TaskLedger


_FIRST_BYTES = 8 << 20
_MOST_BYTES = 64 << 20
_LEAST_BYTES = 64 << 10  # if one of this size does not finish in time, size is not the cause
_QUICK, _SLOW, _LATE = 1 / 6, 1 / 2, 4 / 5  # parts of the transaction timeout
_SMALLER = 4


class TransactionSize:
    """Learns from ended transactions how large the next ones may be. For any thread."""

    def __init__(self, timeout_s: float) -> None:
        """`timeout_s`: how long a transaction may take, from the producer's `transaction.timeout.ms`."""
        self.timeout_s = timeout_s
        self._lock = threading.Lock()
        self._limit_bytes = _FIRST_BYTES
        self._is_at_end = False

    @property
    def limit_bytes(self) -> int:
        """Return roughly how many bytes a transaction may have."""
        return self._limit_bytes

    @property
    def is_at_end(self) -> bool:
        """Say whether the last timed-out transaction could not be smaller, or a smaller one would not help."""
        return self._is_at_end

    def committed(self, size_bytes: int, took_s: float) -> None:
        """Learn from a transaction that was committed after `took_s`."""
        with self._lock:
            self._is_at_end = False
            if took_s >= _SLOW * self.timeout_s:
                self._shrink_to(min(size_bytes, self._limit_bytes) // 2)
            elif took_s <= _QUICK * self.timeout_s and 2 * size_bytes >= self._limit_bytes:
                self._limit_bytes = min(2 * self._limit_bytes, _MOST_BYTES)

    def failed(self, size_bytes: int, took_s: float) -> bool:
        """Learn from a transaction that failed; returns whether it may have timed out."""
        with self._lock:
            before = self._limit_bytes
            is_late = took_s >= _LATE * self.timeout_s
            if is_late:
                self._is_at_end = size_bytes > 2 * before or min(size_bytes, before) <= _LEAST_BYTES
                self._shrink_to(min(size_bytes, before) // _SMALLER)
            return is_late

    def _shrink_to(self, size_bytes: int) -> None:
        self._limit_bytes = max(_LEAST_BYTES, min(self._limit_bytes, size_bytes))


# A second lane is requested after this many transactions that could have been queued had to wait for the one before.
# An idle task has one producer; larger transactions keep one producer busy by themselves.
_NARROW_AFTER = 3
_LIGHT_BYTES = 64 * 1024


class Turns:
    """The transactions that were handed over, until it is known how they have ended."""

    def __init__(self, on_failure: Callable[[], None] | None, sizes: TransactionSize | None) -> None:
        self._on_failure = on_failure
        self.sizes = sizes
        self.last: Turn | None = None
        self._waiting: deque[Turn] = deque()
        self.has_strike = False
        self._was_late = False

    @property
    def are_flushed(self) -> bool:
        """Say whether all records of these transactions are in the log."""
        return self.last is None or self.last.is_flushed

    def await_flushed(self) -> None:
        """Wait for that. Raises EarlierTransactionError."""
        if self.last is not None:
            self.last.await_flushed()

    def ensure_none_failed(self) -> None:
        """Raise EarlierTransactionError if the last one has failed: nothing may follow it."""
        if self.last is not None and self.last.is_done:
            self.last.await_committed()

    def hand_over(self, lane: Lane, held: HeldRecords | None, finish: Finish, sent: TransactionExtent) -> None:
        before = None if self.last is None or self.last.is_committed else self.last
        turn = self.last = Turn(lane.writer, before, held, finish, sent)
        self._waiting.append(turn)
        if self._on_failure is not None:
            lane.hand_over(turn, self._on_failure)
        else:
            lane.run(turn)

    def finished(self, *, wait: bool) -> Sequence[float]:
        """Return when each has ended that was committed; see `Delivery.finished`."""
        ended_s: list[float] = []
        while self._waiting and (wait or self._waiting[0].is_done):
            turn = self._waiting[0]
            turn.await_done()
            if turn.error is not None:
                if ended_s:
                    break  # report the committed ones first; the next call raises
                self.failed(turn.sent.size_bytes, turn.took_s)
                raise turn.error
            if self.sizes is not None:
                self.sizes.committed(turn.sent.size_bytes, turn.took_s)
            self._waiting.popleft()
            self.has_strike |= turn.is_struck
            ended_s.append(turn.ended_s)
        return ended_s

    def failed(self, size_bytes: int, took_s: float) -> None:
        """Learn from a transaction that failed, once: later ones fail with it."""
        if self.sizes is not None and not self._was_late:
            self._was_late = self.sizes.failed(size_bytes, took_s)

    def await_done(self) -> None:
        for turn in self._waiting:
            turn.await_done()


class Widening:
    """How often transactions below `below_bytes` had to wait for the one before; 0: a second lane is not allowed."""

    def __init__(self, below_bytes: int) -> None:
        self.below_bytes = below_bytes
        self._waits = 0

    @property
    def is_due(self) -> bool:
        return self.below_bytes > 0 and self._waits >= _NARROW_AFTER

    def add_wait(self, size_bytes: int) -> None:
        self._waits += size_bytes < self.below_bytes


class LanedDelivery(Delivery):
    """Exactly once, through one lane or two. Used by the task's thread; any thread may call `close`."""

    def __init__(
        self,
        writers: Sequence[TransactionalWriter],
        offsets_topic: str,
        *,
        limits: QueueLimits | None = None,
        widens_below: int = 0,
        on_failure: Callable[[], None] | None = None,
        group: GroupPositions | None = None,
        signature: Signature | None = None,
        sizes: TransactionSize | None = None,
    ) -> None:
        """Take the lanes' writers, and the places that keep offsets.

        Args:
            writers: One for each lane, not in a transaction.
            offsets_topic: Keeps the offsets, unless `group` does.
            limits: Limits of what may be queued while an earlier transaction is flushed. None: nothing is queued.
            widens_below: Transactions below this size in bytes are faster with a second lane, which may be opened. 0:
                it may not.
            on_failure: Called in a lane's thread when a transaction fails. With it, `commit` returns at once and
                `finished` reports the outcome; without it, `commit` waits.
            group: Keeps the offsets in place of the topic.
            signature: Signs what is committed in the group of the input.
            sizes: Learns how large transactions may be.
        """
        self._lanes = [Lane(writer) for writer in writers]
        self._places = OffsetPlaces(offsets_topic, group, signature)
        self._queue = HeldQueue(limits or QueueLimits())
        self._turns = Turns(on_failure, sizes)
        self._current: Lane | None = None  # with the transaction that the task is writing
        self._sent = TransactionExtent()  # in the newest transaction
        self.widening = Widening(widens_below)
        self.ledger: TaskLedger | None = None
        """Makes the entries of each transaction."""

    @property
    def is_open(self) -> bool:
        return self._current is not None and self._current.writer.is_in_transaction

    @property
    def is_narrow(self) -> bool:
        return len(self._lanes) == 1 and self.widening.is_due

    @property
    def is_light(self) -> bool:
        return self._sent.size_bytes < _LIGHT_BYTES

    @property
    def is_full(self) -> bool:
        sizes = self._turns.sizes
        return sizes is not None and self.is_open and self._sent.size_bytes >= sizes.limit_bytes

    @property
    def must_be_replaced(self) -> bool:
        if self.is_open:
            return False
        return self._turns.has_strike or any(not lane.is_busy and lane.writer.is_struck for lane in self._lanes)

    def is_ready(self) -> bool:
        if self._current is None and self._lanes[0].is_busy:
            self.widening.add_wait(self._sent.size_bytes)
            self._lanes[0].await_idle()
        return not (self.must_be_replaced or (self.is_narrow and not self.is_open))

    def cover(self, offsets: OffsetRecords) -> bool:
        """Send the offsets before the records: the coordinator then learns all partitions of a small transaction at
        once. With a ledger they are sent with its entry, which is known only after the records.
        """
        if self._places.group is not None or self.ledger is not None:
            return False
        self._write_offsets(offsets)
        return True

    def send(self, outgoing: Outgoing, on_delivered: OnDelivered | None = None) -> None:
        writer = self._begin().writer
        self._sent.size_bytes += outgoing.about_bytes()
        try:
            self._send(writer, outgoing, on_delivered)
            if self.ledger is not None and self.ledger.is_due(writer):
                entries = self.ledger.take(writer)
                if entries is not None:
                    self._send(writer, entries, None)  # E1, flushed with everything else
        except (ProduceError, WriterFencedError):
            self._turns.failed(self._sent.size_bytes, time.monotonic() - self._sent.begun_s)
            raise

    def _send(self, writer: TransactionalWriter, outgoing: Outgoing, on_delivered: OnDelivered | None) -> None:
        if isinstance(outgoing, OutgoingColumns) and not self._turns.are_flushed:
            held = self._queue.add(outgoing)
            if held:
                send_outgoing(writer, outgoing.slice(0, held), on_delivered)
            if held == len(outgoing):
                return
            outgoing = outgoing.slice(held, len(outgoing))
        if len(outgoing):
            self._turns.await_flushed()
            self._queue.release()
            send_outgoing(writer, outgoing, on_delivered)

    def commit(self, offsets: OffsetRecords, closing: Closing | None = None) -> bool:
        lane = self._begin()
        finish, records = self._places.finish(offsets, closing)
        if self.ledger is None:
            self._write_offsets(records)
        elif (last := self.ledger.end(lane.writer, records)) is not None:
            self.send(last)  # E1
        self._hand_over(lane, finish)
        return True

    def commit_in_group(self, positions: Sequence[GroupOffset], group_metadata: Any, check: Callable[[], None]) -> None:
        """Commit the records sent, together with positions of the group, as the member that read their input.

        `check` is called by the thread that commits; nothing is committed if it raises.
        `finished` reports it like any commit. It raises StaleMemberError if the group has a newer generation (E19).
        """
        self._hand_over(self._begin(), Finish(None, positions, group_metadata, self._places.signature, check))

    def _hand_over(self, lane: Lane, finish: Finish) -> None:
        self._current = None
        if self.ledger is not None:
            self.ledger.handed_over(lane.writer)
        self._turns.hand_over(lane, self._queue.take(), finish, self._sent)

    def finished(self, *, wait: bool = False) -> Sequence[float]:
        return self._turns.finished(wait=wait)

    def abort(self) -> None:
        self._current = None
        self._queue.take()
        self._turns.await_done()
        for lane in self._lanes:
            lane.writer.abort()
            if self.ledger is not None:
                self.ledger.aborted(lane.writer)

    def close(self) -> None:
        for lane in tuple(self._lanes):  # the task's thread may be reversing them
            lane.close()

    def _begin(self) -> Lane:
        """Return the lane of the transaction that is being written; for a new transaction, the next lane in turn."""
        if self._current is None:
            self._turns.ensure_none_failed()
            self._current = self._lanes[0]
            self._current.await_idle()
            self._lanes.reverse()
            self._sent = TransactionExtent(time.monotonic())
            self._queue.begin()
        return self._current

    def _write_offsets(self, offsets: OffsetRecords) -> None:
        """Send offsets through the producer that has the records they cover: their only way into a transaction."""
        if not offsets:
            return
        values = [value for _, value in offsets]
        self.send(OutgoingColumns([self._places.topic] * len(values), values, [key for key, _ in offsets]))  # E1


def open_delivery(
    producer_conf: Mapping[str, Any], transactional_id: str | None, offsets_topic: str, flush_s: float
) -> Delivery:
    """Open a delivery for a short piece of work: one lane with both ids taken (E2), or at least once without an id.

    Every commit is waited for. Raises what `open_lanes` raises, after it has closed what it opened.
    """
    if transactional_id is None:
        return PlainDelivery(dict(producer_conf), offsets_topic, flush_s)
    first, second = (TransactionalWriter(producer_conf, id_) for id_ in lane_ids(transactional_id))
    delivery = LanedDelivery([first], offsets_topic)
    try:
        open_lanes(first, second, keeps_second=False)
    except BaseException:
        delivery.close()
        raise
    return delivery
