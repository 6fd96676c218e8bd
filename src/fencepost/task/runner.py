"""The life of one task in a slot: the executor's part of the start-up order, and what follows each kind of failure.

Steps (numbers of docs/architecture.md): 5 make the producer and `init_transactions`; 6 be admitted; 7 take the
offsets, which the worker read after it admitted; 8 start the task and loop. Every `init_transactions` is followed by 6
and 7 before anything is produced, but for 7 where a task only takes a second producer: it knows what it committed.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from fencepost.api import FatalError, FencedError, RetriableError, SourceTask
from fencepost.kafka.settings import transaction_timeout_ms
from fencepost.storage.offset_topic import encode_key
from fencepost.task.admitted import admitted
from fencepost.task.boundary import Boundary, boundary_of
from fencepost.task.context import TaskContext
from fencepost.task.copies import Copy, copier_of, with_copies
from fencepost.task.counters import Counters
from fencepost.task.dead_letter import ensure_topics
from fencepost.task.delivery import Delivery, PlainDelivery
from fencepost.task.lane import HELD_BYTES, Room
from fencepost.task.lanes import LanedDelivery
from fencepost.task.life import TaskLife
from fencepost.task.loop import SourceLoop, transaction_context
from fencepost.task.offsets import OffsetBook
from fencepost.task.plugins import connector_of, group_of, processor_of, runs_ahead, topics_of, wants_reports
from fencepost.task.spec import Admission, RunState, TaskReport, TaskSpec
from fencepost.transaction import (
    CommitUnknownError,
    ProduceError,
    TransactionalWriter,
    WriterFencedError,
    WriterOpenError,
    lane_ids,
    open_lanes,
)

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


def _is_final(error: Exception) -> bool:
    """Say whether a new producer would only meet the same refusal.

    A broker that was away, or a machine that slept, for longer than a transaction may take is no such refusal.
    """
    if isinstance(error, WriterOpenError):
        return not error.is_passing
    return isinstance(error, ProduceError) and error.is_refused


class TaskRunner(TaskLife):
    """Runs one start of a source's task, through as many producers and instances as it takes."""

    starts_over = _STARTS_OVER

    def __init__(
        self, spec: TaskSpec, admit: Admit, report: Callable[[TaskReport], None], copy: Copy | None = None
    ) -> None:
        """`copy` has the worker write copies of offsets, where the connector has a topic of its own for them."""
        super().__init__(spec, report)
        self.counters = Counters()
        self._admit_call = admit
        self._copier = copier_of(spec, copy)
        self._delivery: Delivery | None = None
        self._lanes_allowed = spec.lanes
        self._uses_both_lanes = False
        self._expired = 0
        self._batch_bytes = spec.batch_bytes  # what the batches of its producers may not exceed
        self._batch_bytes_used = 0

    def abandon(self) -> None:
        """Give up on a task that does not stop in time: its producer is dropped under it."""
        self._is_abandoned = True
        self.control.stop()
        delivery = self._delivery
        if delivery is not None:
            delivery.close()

    def _before_the_last_report(self) -> None:
        """Have the last copies written: the worker takes copies only of starts that have not ended."""
        self._close_copier()

    def _close(self) -> None:
        self._close_delivery()
        self._close_copier()

    def _close_copier(self) -> None:
        if self._copier is not None:
            self._copier.close()

    def _start_over(self, error: Exception) -> None:
        if _is_final(error) and not self._try_smaller_batches(error):
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
        """Back off; whoever may have been fenced asks first whether the task is still its own."""
        log.warning("task %s starts again: %s", self.spec.id, error)
        self.counters.producers_retired += 1
        has_expired = isinstance(error, WriterFencedError | CommitUnknownError) and error.has_expired
        self._expired = has_expired + (0 if self._count_failure() else self._expired)
        self._back_off.wait()
        if not self.control.is_stopping:
            self._admit()
            self._ensure_transactions_end(error)

    def _ensure_transactions_end(self, error: Exception) -> None:
        """Give up once the broker has ended two transactions in a row for their age.

        One may be the fault of a process that stood still. Asked after the admission: nobody newer has the id.
        """
        if self._expired < _MOST_EXPIRED:
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

    def _run_instance(self) -> None:
        delivery = self._open_delivery()  # step 5
        if self.control.should_yield:
            self._close_delivery()
            return
        admission = self._admit()  # steps 6 and 7, E3
        keys = {encode_key(self.spec.connector, p): key.encode() for p, key in admission.spellings}
        book = OffsetBook(admission.offsets, keys)
        boundary = boundary_of(self.spec.boundary, self.spec.boundary_interval_ms)
        task, loop = self._build(book, boundary)
        try:
            task.start()  # step 8
            self.report(RunState.RUNNING)
            loop.run(delivery)
        finally:
            self._stop(task)
            self._close_delivery()

    def _build(self, book: OffsetBook, boundary: Boundary) -> tuple[SourceTask, SourceLoop]:
        config, task = connector_of(self.spec)
        context = TaskContext(
            {k: v for k, v in self.spec.task_config.items() if v is not None},
            book,
            self.control,
            transaction_context(boundary),
        )
        task.initialize(context, config)
        processor = processor_of(self.spec, self.control, self.counters.errors)
        if processor.letters is not None:
            ensure_topics(self.spec)
        loop = SourceLoop(
            self.spec,
            task,
            processor,
            boundary,
            self.control,
            book,
            self.counters,
            replace=lambda: self._replace_delivery(book),
            report_state=self.report,
            topics=topics_of(self.spec),
            runs_ahead=runs_ahead(self.spec),
        )
        return task, loop

    def _open_delivery(self) -> Delivery:
        conf = dict(self.spec.producer_conf)
        if wants_reports(self.spec):
            conf["delivery.report.only.error"] = False
        if self._batch_bytes is not None:
            conf["batch.size"] = self._batch_bytes
        self._batch_bytes_used = int(conf.get("batch.size", HELD_BYTES))
        if self.spec.transactional_id is None:
            flush_s = self.spec.offset_flush_timeout_ms / 1000
            delivery: Delivery = PlainDelivery(conf, self.spec.offsets_topic, flush_s, group_of(self.spec))
        else:
            delivery = self._open_lanes(conf, self.spec.transactional_id)
        self._delivery = with_copies(delivery, self._copier, self.spec.offsets_topic)
        return self._delivery

    def _open_lanes(self, conf: dict[str, Any], transactional_id: str) -> Delivery:
        """Take both ids, also where one is to be used: whoever had them before may have used both (E2)."""
        room = None
        if self._uses_both_lanes and self.spec.boundary == "poll":
            room = Room.made_in(conf, batch_bytes=self._batch_bytes)
            self._batch_bytes_used = max(self._batch_bytes_used, room.size_bytes)
        first, second = (TransactionalWriter(conf, id_) for id_ in lane_ids(transactional_id))
        self._delivery = delivery = LanedDelivery(
            [first, second] if self._uses_both_lanes else [first],
            self.spec.offsets_topic,
            room=room,
            may_widen=self._lanes_allowed > 1,
            on_failure=self.control.wake if runs_ahead(self.spec) else None,
            group=group_of(self.spec),
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

    def _replace_delivery(self, book: OffsetBook) -> Delivery:
        """Retire a struck producer (E5), or take a second.

        After a strike the task goes on if what it committed is stored (E7). One that only takes a second producer knows
        that, and reads nothing: it would stand still until all transactions of other tasks have ended.
        """
        is_struck = True
        if self._delivery is not None and self._delivery.is_narrow:
            self._uses_both_lanes = True
            is_struck = self._delivery.must_be_replaced
        self.counters.producers_retired += is_struck
        self._close_delivery()
        delivery = self._open_delivery()
        if not is_struck:
            admitted(self._admit_call(self.spec, wants_offsets=False))
            return delivery
        stored: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]] = self._admit().offsets
        if book.differs_from(stored):
            raise StartOverError("the stored offsets are not what this incarnation committed last")
        return delivery

    def _admit(self) -> Admission:
        return admitted(self._admit_call(self.spec))

    def _close_delivery(self) -> None:
        """Let go of the producer; a transaction that is known to be open is aborted, so that no reader waits for it."""
        delivery, self._delivery = self._delivery, None
        if delivery is None:
            return
        if not self._is_abandoned:
            delivery.abort()
        delivery.close()

    def _stop(self, task: SourceTask) -> None:
        try:
            task.stop()
        except Exception:
            log.exception("task %s: an error in stop() is ignored", self.spec.id)
