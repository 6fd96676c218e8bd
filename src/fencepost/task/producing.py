"""The life of a task that writes in transactions of its own: its producers, and what follows each kind of failure.

Every `init_transactions` (step 5 of docs/architecture.md) is followed by an admission before anything is produced.
"""

import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from fencepost.api import FatalError, FencedError, RetriableError
from fencepost.kafka.setting.client_settings import most_record_bytes, transaction_timeout_ms
from fencepost.task.admitted import admitted
from fencepost.task.delivery import Delivery
from fencepost.task.finish import GroupPositions
from fencepost.task.lane import HELD_BYTES, Room, held_bytes
from fencepost.task.lanes import LanedDelivery
from fencepost.task.life import TaskLife
from fencepost.task.spec import Admission, TaskReport, TaskSpec
from fencepost.task.transaction_size import TransactionSize
from fencepost.transaction import (
    CommitUnknownError,
    ProduceError,
    TransactionalWriter,
    WriterFencedError,
    WriterOpenError,
    is_refusal,
    lane_ids,
    open_lanes,
)
from fencepost.transaction.signature import Signature

log = logging.getLogger(__name__)

_MOST_EXPIRED = 2
_SMALLEST_BATCH_BYTES = 1_024


class Admit(Protocol):
    """How a start asks its worker whether it is still the one to run, and where it stands."""

    def __call__(self, spec: TaskSpec, /, *, wants_offsets: bool = True) -> Admission: ...


class TransactionExpiredError(FatalError):
    """Transactions of the task always take longer than they may (KIP-618): a start more would change nothing."""


class StartOverError(Exception):
    """The task instance is to be discarded and the task started again at step 5."""


# After an unknown commit, too: its producer is dropped, and what happened is read from the topic (E6).
_STARTS_OVER = (StartOverError, CommitUnknownError, FencedError, RetriableError, WriterOpenError, ProduceError)


def _smaller(batch_bytes: int) -> int:
    """Return how large batches are tried next; 1: each record in a batch of its own."""
    return batch_bytes // 4 if batch_bytes >= 4 * _SMALLEST_BATCH_BYTES else 1


class ProducingLife(TaskLife):
    """Runs one start of such a task, through as many producers and instances as it takes."""

    starts_over = _STARTS_OVER

    def __init__(self, spec: TaskSpec, admit: Admit, report: Callable[[TaskReport], None]) -> None:
        super().__init__(spec, report)
        self._admit_call = admit
        self._delivery: Delivery | None = None
        self._lanes_allowed = spec.lanes
        self._uses_both_lanes = False
        self._expired = 0
        self._sizes = TransactionSize(transaction_timeout_ms(spec.producer_conf) / 1000)
        self._batch_bytes = spec.batch_bytes  # what the batches of its producers may not exceed
        self._batch_bytes_used = 0

    @property
    @abstractmethod
    def _makes_smaller(self) -> bool:
        """Say whether transactions become smaller where `_sizes` asks for that."""

    @abstractmethod
    def _open_delivery(self) -> Delivery:
        """Return a new delivery, whose predecessor is fenced (step 5)."""

    def abandon(self) -> None:
        """Give up on a task that does not stop in time: its producer is dropped under it."""
        self._is_abandoned = True
        self.control.stop()
        delivery = self._delivery
        if delivery is not None:
            delivery.close()

    def _close(self) -> None:
        self._close_delivery()

    def _start_over(self, error: Exception) -> None:
        if is_refusal(error) and not self._try_smaller_batches(error):
            raise error
        self._close_delivery()
        self._before_another_try(error)

    def _try_smaller_batches(self, error: Exception) -> bool:
        """Halve batches twice where a topic takes none so large. Returns False where that cannot be the remedy.

        librdkafka makes batches up to its producer's `batch.size`, whatever the topic's `max.message.bytes` is.
        """
        is_too_large = isinstance(error, ProduceError) and error.is_batch_too_large
        if not is_too_large or self._batch_bytes_used <= 1:
            return False
        self._batch_bytes = _smaller(self._batch_bytes_used)
        log.warning(
            "task %s: a topic's max.message.bytes is below the size of a batch; batches of at most %s bytes are tried: "
            "set producer.override.batch.size",
            self.spec.id,
            self._batch_bytes,
        )
        return True

    def _before_another_try(self, error: Exception) -> None:
        """Back off; whoever may have been fenced asks first whether the task is still its own.

        It asks for no offsets: they would not come before its own transaction has ended, which the next producer does.
        """
        log.warning("task %s starts again: %s", self.spec.id, error)
        self.counters.producers_retired += 1
        has_expired = isinstance(error, WriterFencedError | CommitUnknownError | ProduceError) and error.has_expired
        if has_expired and self._makes_smaller:
            limit_bytes = self._sizes.limit_bytes
            log.warning("task %s: the next transactions have at most %d bytes", self.spec.id, limit_bytes)
        self._expired = has_expired + (0 if self._count_failure() else self._expired)
        self._back_off.wait()
        if not self.control.is_stopping:
            admitted(self._admit_call(self.spec, wants_offsets=False))
            self._ensure_transactions_end(error)

    def _ensure_transactions_end(self, error: Exception) -> None:
        """Give up once two transactions in a row took longer than they may, and cannot be smaller.

        One may be the fault of a process that stood still. Asked after the admission: nobody newer has the id.
        """
        if self._expired < _MOST_EXPIRED or (self._makes_smaller and not self._sizes.is_at_end):
            return
        timeout_ms = transaction_timeout_ms(self.spec.producer_conf)
        raise TransactionExpiredError(
            f"Task {self.spec.id} was unable to finish writing records to Kafka before its producer transaction "
            f"expired (transaction.timeout.ms={timeout_ms}), {self._expired} times in a row. Either increase "
            "producer.override.transaction.timeout.ms (the broker's transaction.max.timeout.ms bounds it), "
            f"or end transactions earlier (transaction.boundary is {self.spec.boundary}): a shorter "
            "transaction.boundary.interval.ms, transaction.boundary=poll, or a connector that asks for commits more "
            "often; or tune the producer for a higher throughput (producer.override.batch.size, .compression.type)."
        ) from error

    def _producer_conf(self) -> Mapping[str, Any]:
        """Return the settings that all producers of this start have."""
        return self.spec.producer_conf

    def _settings(self) -> dict[str, Any]:
        """Return what the next producers are made with, and note how large their batches may become."""
        conf = dict(self._producer_conf())
        if self._batch_bytes is not None:
            conf["batch.size"] = self._batch_bytes
        self._batch_bytes_used = int(conf.get("batch.size", HELD_BYTES))
        return conf

    def _open_lanes(
        self,
        conf: dict[str, Any],
        transactional_id: str,
        on_failure: Callable[[], None] | None,
        group: GroupPositions | None = None,
        signature: Signature | None = None,
    ) -> LanedDelivery:
        """Take both ids, also where one is to be used: whoever had them before may have used both (E2)."""
        room = None
        if self._uses_both_lanes and self.spec.boundary == "poll":
            room = Room.made_in(conf, batch_bytes=self._batch_bytes)
            self._batch_bytes_used = max(self._batch_bytes_used, min(room.size_bytes, most_record_bytes(conf)))
        first, second = (TransactionalWriter(conf, id_) for id_ in lane_ids(transactional_id))
        self._delivery = delivery = LanedDelivery(
            [first, second] if self._uses_both_lanes else [first],
            self.spec.offsets_topic,
            room=room,
            may_widen=self._lanes_allowed > 1,
            held_bytes=held_bytes(conf),
            on_failure=on_failure,
            group=group,
            signature=signature,
            sizes=self._sizes,
        )
        if not open_lanes(first, second, keeps_second=self._uses_both_lanes):
            if self._lanes_allowed > 1:
                log.warning(
                    "task %s uses one lane: its principal is not authorised for transactional id %s",
                    self.spec.id,
                    second.transactional_id,
                )
            self._lanes_allowed = 1
            delivery.stay_narrow()
            if self._uses_both_lanes:
                self._uses_both_lanes = False
                raise StartOverError("the id of the second lane is not authorised any more")
        return delivery

    def _admit(self) -> Admission:
        return admitted(self._admit_call(self.spec))

    def _retire_delivery(self) -> bool:
        """Let go of producers that are struck (E5), or that want a second beside them; returns whether they are."""
        is_struck = True
        if self._delivery is not None and self._delivery.is_narrow:
            self._uses_both_lanes = True
            is_struck = self._delivery.must_be_replaced
        self.counters.producers_retired += is_struck
        self._close_delivery()
        return is_struck

    def _close_delivery(self) -> None:
        """Let go of the producer; a transaction that is known to be open is aborted, so that no reader waits for it."""
        delivery, self._delivery = self._delivery, None
        if delivery is None:
            return
        if not self._is_abandoned:
            delivery.abort()
        delivery.close()
