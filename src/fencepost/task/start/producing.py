"""The life of a task that writes in its own transactions: its producers, and what follows each kind of failure.

Every `init_transactions` (step 5 of docs/architecture.md) is followed by an admission before anything is produced.
"""

import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from fencepost.api import FatalError, FencedError, RetriableError
from fencepost.kafka.setting.client_settings import most_record_bytes, transaction_timeout_ms
from fencepost.task.channel.message import Admission
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.delivery.delivery import Delivery
from fencepost.task.delivery.finish import GroupPositions
from fencepost.task.delivery.lane import HELD_BYTES, QueueLimits, held_bytes
from fencepost.task.delivery.lanes import LanedDelivery, TransactionSize
from fencepost.task.start.runner import Report, TaskRunner, admitted
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
from fencepost.transaction.input_fence import Signature

if TYPE_CHECKING:
    from fencepost.task.delivery.ledger import TaskLedger


log = logging.getLogger(__name__)

_MOST_EXPIRED = 2
_SMALLEST_BATCH_BYTES = 1_024


class Admit(Protocol):
    """How a start asks its worker whether it is still the one to run, and for its committed offsets."""

    def __call__(self, spec: TaskSpec, /, *, wants_offsets: bool = True) -> Admission: ...


class TransactionExpiredError(FatalError):
    """The task's transactions always exceed their timeout (KIP-618): another start would not help."""


class StartOverError(Exception):
    """The task instance is to be discarded and the task started again at step 5."""


# This includes an unknown commit: its producer is dropped, and the next start reads the outcome from the topic (E6).
_STARTS_OVER = (StartOverError, CommitUnknownError, FencedError, RetriableError, WriterOpenError, ProduceError)


class ProducingRunner(TaskRunner):
    """Runs one start of such a task, with as many producers and instances as it takes."""

    starts_over = _STARTS_OVER

    def __init__(self, spec: TaskSpec, admit: Admit, report: Report) -> None:
        super().__init__(spec, report)
        self._admit_call = admit
        self._delivery: Delivery | None = None
        self._lanes_allowed = spec.commits.lanes
        self.uses_both_lanes = False
        self._expired = 0
        self._batch_bytes = spec.commits.batch_bytes  # upper limit for the batches of its producers
        self._batch_bytes_used = 0
        self._ledger: TaskLedger | None = None

    @cached_property
    def _sizes(self) -> TransactionSize:
        return TransactionSize(transaction_timeout_ms(self.spec.output.producer_conf) / 1000)

    @property
    @abstractmethod
    def _makes_smaller(self) -> bool:
        """Say whether transactions can become smaller when `_sizes` asks for it."""

    @abstractmethod
    def _open_delivery(self) -> Delivery:
        """Return a new delivery whose predecessor is fenced (step 5)."""

    def abandon(self) -> None:
        """Abandon a task that does not stop in time: its producer is closed while the task uses it."""
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
        """Quarter the batch size if a topic refuses batches as too large. Returns False if that cannot help.

        librdkafka builds batches up to its producer's `batch.size`, whatever the topic's `max.message.bytes` is.
        """
        is_too_large = isinstance(error, ProduceError) and error.is_batch_too_large
        if not is_too_large or self._batch_bytes_used <= 1:
            return False
        is_large = self._batch_bytes_used >= 4 * _SMALLEST_BATCH_BYTES
        self._batch_bytes = self._batch_bytes_used // 4 if is_large else 1  # 1: each record is a batch
        log.warning(
            "task %s: a topic's max.message.bytes is below the size of a batch; retrying with batches of at most "
            "%s bytes; set producer.override.batch.size to avoid this",
            self.spec.id,
            self._batch_bytes,
        )
        return True

    def _before_another_try(self, error: Exception) -> None:
        """Back off. A start that may have been fenced first asks whether the task is still its own.

        It does not ask for offsets: they are available only after its own transaction ends, which the next producer
        ends.
        """
        has_committed = self._will_start_again(error)
        self.counters.producers_retired += 1
        has_expired = isinstance(error, WriterFencedError | CommitUnknownError | ProduceError) and error.has_expired
        if has_expired and self._makes_smaller:
            limit_bytes = self._sizes.limit_bytes
            log.warning("task %s: the next transactions have at most %d bytes", self.spec.id, limit_bytes)
        self._expired = has_expired + (0 if has_committed else self._expired)
        self._back_off.wait()
        if not self.control.is_stopping:
            admitted(self._admit_call(self.spec, wants_offsets=False))
            self._ensure_transactions_end(error)

    def _ensure_transactions_end(self, error: Exception) -> None:
        """Raise TransactionExpiredError after two transactions in a row exceeded their timeout and cannot be smaller.

        A single one may come from a process that was paused. The check follows the admission: no newer start has the
        id.
        """
        if self._expired < _MOST_EXPIRED or (self._makes_smaller and not self._sizes.is_at_end):
            return
        timeout_ms = transaction_timeout_ms(self.spec.output.producer_conf)
        raise TransactionExpiredError(
            f"Task {self.spec.id} was unable to finish writing records to Kafka before its producer transaction "
            f"expired (transaction.timeout.ms={timeout_ms}), {self._expired} times in a row. Either increase "
            "producer.override.transaction.timeout.ms (the broker's transaction.max.timeout.ms bounds it), "
            f"or end transactions earlier (transaction.boundary is {self.spec.commits.boundary}): a shorter "
            "transaction.boundary.interval.ms, transaction.boundary=poll, or a connector that asks for commits more "
            "often; or tune the producer for a higher throughput (producer.override.batch.size, .compression.type)."
        ) from error

    def _producer_conf(self) -> Mapping[str, Any]:
        """Return the settings that all producers of this start have in common."""
        return self.spec.output.producer_conf

    def _settings(self) -> dict[str, Any]:
        """Return the settings of the next producers, and remember how large their batches may become."""
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
        """Take both ids even if only one is used: their previous owner may have used both (E2)."""
        limits = None
        if self.uses_both_lanes and self.spec.commits.boundary == "poll":
            limits = QueueLimits.made_in(conf, batch_bytes=self._batch_bytes)
            self._batch_bytes_used = max(self._batch_bytes_used, min(limits.size_bytes, most_record_bytes(conf)))
        first, second = (TransactionalWriter(conf, id_) for id_ in lane_ids(transactional_id))
        self._delivery = delivery = LanedDelivery(
            [first, second] if self.uses_both_lanes else [first],
            self.spec.output.offsets_topic,
            limits=limits,
            widens_below=held_bytes(conf) if self._lanes_allowed > 1 else 0,
            on_failure=on_failure,
            group=group,
            signature=signature,
            sizes=self._sizes,
        )
        delivery.ledger = self._restarted_ledger()
        if not open_lanes(first, second, keeps_second=self.uses_both_lanes):
            if self._lanes_allowed > 1:
                log.warning(
                    "task %s uses one lane: its principal is not authorised to write with transactional id %s",
                    self.spec.id,
                    second.transactional_id,
                )
            self._lanes_allowed = 1
            delivery.widening.below_bytes = 0
            if self.uses_both_lanes:
                self.uses_both_lanes = False
                raise StartOverError("the transactional id of the second lane is no longer authorised")
        return delivery

    def _restarted_ledger(self) -> "TaskLedger | None":
        """Return the ledger for other producers, or None if the task keeps none."""
        if not self.spec.commits.ledger_topic:
            return None
        if self._ledger is None:
            from fencepost.task.delivery.ledger import TaskLedger  # which imports Arrow

            self._ledger = TaskLedger(self.spec)
        self._ledger.restart()
        return self._ledger

    def _admit(self) -> Admission:
        admission = admitted(self._admit_call(self.spec))
        if self._ledger is not None:
            self._ledger.inherit(admission.carried)
        return admission

    def _retire_delivery(self) -> bool:
        """Close producers that are struck (E5), or that need a second one; returns whether they are struck."""
        is_struck = True
        if self._delivery is not None and self._delivery.is_narrow:
            self.uses_both_lanes = True
            is_struck = self._delivery.must_be_replaced
        self.counters.producers_retired += is_struck
        self._close_delivery()
        return is_struck

    def _close_delivery(self) -> None:
        """Close the producer. A transaction known to be open is aborted, so that no reader waits for it."""
        delivery, self._delivery = self._delivery, None
        if delivery is None:
            return
        if not self._is_abandoned:
            delivery.abort()
        delivery.close()
