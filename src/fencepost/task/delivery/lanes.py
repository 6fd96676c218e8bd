"""One or two producers of a task that take turns, so that one sends while the other commits (decision 0011).

An error of one transaction fails all later ones, and both producers are replaced.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fencepost.kafka.group.memberless import memberless
from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.task.delivery.delivery import Delivery, OnDelivered, PlainDelivery, send_outgoing
from fencepost.task.delivery.finish import Closing, Finish, GroupPositions, OffsetRecords
from fencepost.task.delivery.lane import HELD_BYTES, HeldRecords, Lane, QueueLimits, Turn
from fencepost.task.delivery.outgoing import Outgoing, OutgoingColumns
from fencepost.task.delivery.transaction_size import TransactionSize
from fencepost.transaction import ProduceError, TransactionalWriter, WriterFencedError, lane_ids, open_lanes
from fencepost.transaction.signature import Signature

# A second lane is requested after this many transactions that could have been queued had to wait for the one before.
# An idle task has one producer; larger transactions keep one producer busy by themselves.
_NARROW_AFTER = 3
_LIGHT_BYTES = 64 * 1024


class LanedDelivery(Delivery):
    """Exactly once, through one lane or two. Used by the task's thread; any thread may call `close`."""

    def __init__(
        self,
        writers: Sequence[TransactionalWriter],
        offsets_topic: str,
        *,
        limits: QueueLimits | None = None,
        may_widen: bool = False,
        held_bytes: int = HELD_BYTES,
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
            may_widen: Whether a second lane may be opened.
            held_bytes: Transactions up to this size are faster with a second lane.
            on_failure: Called in a lane's thread when a transaction fails. With it, `commit` returns at once and
                `finished` reports the outcome; without it, `commit` waits.
            group: Keeps the offsets in place of the topic.
            signature: Signs what is committed in the group of the input.
            sizes: Learns how large transactions may be.
        """
        self._lanes = [Lane(writer) for writer in writers]
        self._offsets_topic = offsets_topic
        self._group = group
        self._signature = signature
        self._sizes = sizes
        self._limits = limits or QueueLimits()
        self._may_widen = may_widen
        self._held_bytes = held_bytes
        self._on_failure = on_failure
        self._current: Lane | None = None  # with the transaction that the task is writing
        self._turns: deque[Turn] = deque()  # handed over, and not yet returned by `finished`
        self._last: Turn | None = None
        self._bytes_left = self._records_left = 0
        self._held: HeldRecords | None = None
        self._has_strike = self._was_late = False
        self._begun_s = 0.0
        self._sent_bytes = 0  # approximate, of the newest transaction
        self._collisions = 0

    @property
    def is_open(self) -> bool:
        return self._current is not None and self._current.writer.is_in_transaction

    @property
    def is_narrow(self) -> bool:
        return self._may_widen and len(self._lanes) == 1 and self._collisions >= _NARROW_AFTER

    @property
    def is_light(self) -> bool:
        return self._sent_bytes < _LIGHT_BYTES

    @property
    def is_full(self) -> bool:
        return self._sizes is not None and self.is_open and self._sent_bytes >= self._sizes.limit_bytes

    @property
    def must_be_replaced(self) -> bool:
        if self.is_open:
            return False
        return self._has_strike or any(not lane.is_busy and lane.writer.is_struck for lane in self._lanes)

    def is_ready(self) -> bool:
        if self._current is None and self._lanes[0].is_busy:
            self._collisions += self._sent_bytes < self._held_bytes
            self._lanes[0].await_idle()
        return not (self.must_be_replaced or (self.is_narrow and not self.is_open))

    def cover(self, offsets: OffsetRecords) -> bool:
        """Send the offsets before the records: the coordinator then learns all partitions of a small transaction at
        once.
        """
        if self._group is not None:
            return False
        self._write_offsets(offsets)
        return True

    def send(self, outgoing: Outgoing, on_delivered: OnDelivered | None = None) -> None:
        writer = self._begin().writer
        self._sent_bytes += outgoing.about_bytes()
        try:
            self._send(writer, outgoing, on_delivered)
        except (ProduceError, WriterFencedError):
            self._record_failure(self._sent_bytes, time.monotonic() - self._begun_s)
            raise

    def _record_failure(self, size_bytes: int, took_s: float) -> None:
        """Learn from a transaction that failed, once: later ones fail with it."""
        if self._sizes is not None and not self._was_late:
            self._was_late = self._sizes.failed(size_bytes, took_s)

    def _send(self, writer: TransactionalWriter, outgoing: Outgoing, on_delivered: OnDelivered | None) -> None:
        if isinstance(outgoing, OutgoingColumns) and not self._may_send():
            held = self._fitting(outgoing)
            if held:
                self._held = self._held or HeldRecords(self._limits.time_s)
                send_outgoing(writer, outgoing.slice(0, held), on_delivered)
            outgoing = outgoing.slice(held, len(outgoing))
        if len(outgoing):
            self._await_earlier()
            send_outgoing(writer, outgoing, on_delivered)

    def commit(self, offsets: OffsetRecords, closing: Closing | None = None) -> bool:
        lane = self._begin()
        finish = Finish(closing)
        if self._group is not None:
            positions, offsets = self._group.parted(offsets)
            finish = Finish(closing, positions, memberless(self._group.group))
        self._write_offsets(offsets)
        self._hand_over(lane, finish)
        return True

    def commit_in_group(self, positions: Sequence[GroupOffset], group_metadata: Any) -> None:
        """Commit what was sent together with positions of the group that it was read in, as the member that read it.

        `finished` reports it like any commit. It raises StaleMemberError if the group has a newer generation (E19).
        """
        self._hand_over(self._begin(), Finish(None, positions, group_metadata, self._signature))

    def _hand_over(self, lane: Lane, finish: Finish) -> None:
        before = None if self._last is None or self._last.is_committed else self._last
        turn = Turn(lane.writer, before, self._held, finish, size_bytes=self._sent_bytes, begun_s=self._begun_s)
        self._turns.append(turn)
        self._last, self._current, self._held = turn, None, None
        if self._on_failure is not None:
            lane.hand_over(turn, self._on_failure)
        else:
            lane.run(turn)

    def stay_narrow(self) -> None:
        """Never ask for a second producer."""
        self._may_widen = False

    def finished(self, *, wait: bool = False) -> Sequence[float]:
        ended_s: list[float] = []
        while self._turns and (wait or self._turns[0].is_done):
            turn = self._turns[0]
            turn.await_done()
            if turn.error is not None:
                if ended_s:
                    break  # report the committed ones first; the next call raises
                self._record_failure(turn.size_bytes, turn.took_s)
                raise turn.error
            if self._sizes is not None:
                self._sizes.committed(turn.size_bytes, turn.took_s)
            self._turns.popleft()
            self._has_strike |= turn.is_struck
            ended_s.append(turn.ended_s)
        return ended_s

    def abort(self) -> None:
        self._current = self._held = None
        for turn in self._turns:
            turn.await_done()
        for lane in self._lanes:
            lane.writer.abort()

    def close(self) -> None:
        for lane in tuple(self._lanes):  # the task's thread may be reversing them
            lane.close()

    def _begin(self) -> Lane:
        """Return the lane of the transaction that is being written; for a new transaction, the next lane in turn."""
        if self._current is None:
            if self._last is not None and self._last.is_done:
                self._last.await_committed()  # nothing may follow a transaction that is not committed
            self._current = self._lanes[0]
            self._current.await_idle()
            self._lanes.reverse()
            self._sent_bytes, self._begun_s = 0, time.monotonic()
            self._bytes_left, self._records_left = self._limits.size_bytes, self._limits.records
        return self._current

    def _may_send(self) -> bool:
        return self._last is None or self._last.is_flushed

    def _await_earlier(self) -> None:
        if self._last is not None:
            self._last.await_flushed()
        if self._held is not None:
            self._held.ensure_held()
            self._held = None

    def _write_offsets(self, offsets: OffsetRecords) -> None:
        """Send offsets through the producer that has the records they cover: their only way into a transaction."""
        if not offsets:
            return
        values = [value for _, value in offsets]
        self.send(OutgoingColumns([self._offsets_topic] * len(values), values, [key for key, _ in offsets]))  # E1

    def _fitting(self, outgoing: OutgoingColumns) -> int:
        """Return how many of the first records the producer will hold back, and count them."""
        most = max(0, min(len(outgoing), self._records_left - 1))
        count, size_bytes = outgoing.fitting(most, self._bytes_left)
        self._bytes_left -= size_bytes
        self._records_left -= count
        return count


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
