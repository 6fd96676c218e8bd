"""One start of a source's task: the executor's part of the start-up order, and what follows each kind of failure.

Steps (numbers of docs/architecture.md): 5 create the producer and `init_transactions`; 6 get admitted; 7 take the
offsets, which the worker read after the admission; 8 start the task and loop. Every `init_transactions` is followed by
6 and 7 before anything is produced. Only a task that just takes a second producer skips 7: it knows what it committed.
"""

from collections.abc import Iterable, Mapping
from contextlib import closing
from functools import partial
from typing import Any

import orjson

from fencepost.api import Form, SourceTask
from fencepost.config.reference import given_values
from fencepost.hook.hosted_task import HostedTask, InOtherProcess
from fencepost.hook.mirror import MirrorTask, adds_records
from fencepost.kafka.produce.producer import sends_batches
from fencepost.storage.offset_topic import encode_key
from fencepost.task.channel.message import RunState
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.conversion.plugins import (
    config_of,
    connector_class,
    connector_of,
    given_properties,
    place_of,
    task_class,
)
from fencepost.task.delivery.copies import Copy, copier_of, with_copies
from fencepost.task.delivery.delivery import Delivery, PlainDelivery, topics_of
from fencepost.task.delivery.finish import GroupPositions
from fencepost.task.failure.dead_letter import ensure_topics
from fencepost.task.source.boundary import Boundary, ConnectorBoundary, boundary_of
from fencepost.task.source.loop import HostedContext, SourceLoop, TaskContext
from fencepost.task.source.mixed_processing import processor_of
from fencepost.task.source.offsets import OffsetBook
from fencepost.task.source.processing import Processor, batches_refusal, chosen_conf
from fencepost.task.source.written import WrittenRecords
from fencepost.task.start.producing import Admit, ProducingRunner, StartOverError
from fencepost.task.start.run import Counters, TaskRun
from fencepost.task.start.runner import Report, admitted
from fencepost.task.tracing.exports import tracing_of


def form_of(spec: TaskSpec) -> Form:
    """Return the form in which the task's `poll` returns records."""
    found: Form = connector_class(spec).task.form(config_of(spec))
    return found


def reads_batches(spec: TaskSpec) -> bool:
    """Say whether the task's `poll` returns Kafka's record batches where they can be written as they are."""
    task: type[SourceTask] = connector_class(spec).task
    return issubclass(task, MirrorTask) and task.reads_batches(config_of(spec))


def tracks_records(spec: TaskSpec) -> bool:
    """Say whether the task overrides `commit_record`, and so is called for every record."""
    return task_class(spec).commit_record is not SourceTask.commit_record


def wants_reports(spec: TaskSpec) -> bool:
    """Say whether the producer must report every acknowledged record."""
    task: type[SourceTask] = task_class(spec)
    has_updates = task.update_offsets is not SourceTask.update_offsets
    asks_places = issubclass(task, HostedTask) and task.asks_places
    return adds_records(task) or asks_places or tracks_records(spec) or (has_updates and not spec.is_exactly_once)


def makes_smaller(spec: TaskSpec) -> bool:
    """Say whether transactions can be made smaller, by the task itself or by ending them between its polls."""
    task: type[SourceTask] = connector_class(spec).task
    return task.heeds_transaction_bytes or spec.commits.boundary == "interval"


def group_of(spec: TaskSpec) -> GroupPositions | None:
    """Return the group that keeps the connector's offsets, or None."""
    if not spec.output.has_offsets_in_group:
        return None
    held = connector_class(spec)(given_properties(spec)).offsets_in_group(spec.connector)
    return None if held is None else GroupPositions(held)


def runs_ahead(spec: TaskSpec) -> bool:
    """Say whether the next batch may be polled before the last one is committed.

    Never with connector-defined boundaries or a tracking of records. Not if the author acts on commits, unless the
    class allows it (`polls_ahead`).
    """
    if not spec.is_exactly_once or spec.commits.boundary == "connector" or tracks_records(spec):
        return False
    task: type[SourceTask] = task_class(spec)
    if task.polls_ahead is not None:
        return task.polls_ahead
    return task.commit is SourceTask.commit and task.update_offsets is SourceTask.update_offsets


class SourceRunner(ProducingRunner):
    """Runs one start of a source's task, with as many producers and instances as it takes."""

    def __init__(self, spec: TaskSpec, admit: Admit, report: Report, copy: Copy | None = None) -> None:
        """`copy` lets the worker write copies of offsets, for a connector with an offsets topic of its own."""
        super().__init__(spec, admit, report)
        self.counters = Counters()
        self._copier = copier_of(spec, copy)
        self._conf: Mapping[str, Any] | None = None
        self._task: SourceTask | None = None  # the newest instance, which may have ended
        self._processor: Processor | None = None  # that of the newest instance

    def figures(self) -> str:
        found = self._task.figures() if isinstance(self._task, MirrorTask | HostedTask) else {}
        return orjson.dumps(found).decode() if found else ""

    def _elsewhere(self) -> InOtherProcess | None:
        return self._task if isinstance(self._task, HostedTask) else None

    def _before_the_last_report(self) -> None:
        """Let the last copies be written: the worker accepts copies only of starts that have not ended."""
        self._close_copier()

    def _close(self) -> None:
        self._close_delivery()
        self._close_copier()

    def _close_copier(self) -> None:
        if self._copier is not None:
            self._copier.close()

    def abandon(self) -> None:
        super().abandon()
        if isinstance(self._task, HostedTask):
            self._task.abandon()
        if self._processor is not None:
            self._processor.abandon()

    def _run_instance(self) -> None:
        delivery = self._open_delivery()  # step 5
        if self.control.should_yield:
            self._close_delivery()
            return
        admission = self._admit()  # steps 6 and 7, E3
        keys = {encode_key(self.spec.connector, p): key.encode() for p, key in admission.spellings}
        book = OffsetBook(admission.offsets, keys)
        boundary = boundary_of(self.spec.commits.boundary, self.spec.commits.boundary_interval_ms)
        with closing(self._new_processor()) as processor:
            self._processor = processor
            processor.open()
            task, loop = self._build(book, boundary, processor)
            try:
                if isinstance(task, MirrorTask):  # its start reads a cluster, which may be away
                    task.start()
                else:
                    self._start(task)  # step 8
                self.report(RunState.RUNNING)
                loop.run(delivery)
            finally:
                self._stop(task)
                self._close_delivery()

    def _build(self, book: OffsetBook, boundary: Boundary, processor: Processor) -> tuple[SourceTask, SourceLoop]:
        config, task = connector_of(self.spec)
        make = (
            partial(HostedContext, place_of(self.spec), self.counters.errors)
            if isinstance(task, HostedTask)
            else TaskContext
        )
        context = make(
            given_values(self.spec.task_config),
            book,
            self.control,
            boundary if isinstance(boundary, ConnectorBoundary) else None,
            takes_columns=self.spec.is_exactly_once and sends_batches(self._producer_conf()),
            batches_refusal=batches_refusal(self.spec, self._producer_conf(), processor),
            sizes=self._sizes if self.spec.is_exactly_once else None,
            written=partial(WrittenRecords, self.spec, processor),
        )
        task.initialize(context, config)
        self._task = task
        if processor.letters is not None:
            ensure_topics(self.spec)
        loop = SourceLoop(
            TaskRun(
                self.spec,
                self.control,
                self.counters,
                self.report,
                tracing_of(self.spec, stamps=not isinstance(task, MirrorTask)),
            ),
            task,
            processor,
            boundary,
            book,
            topics_of(self.spec),
            lambda: self._replace_delivery(book),
            runs_ahead=runs_ahead(self.spec),
        )
        return task, loop

    def _new_processor(self) -> Processor:
        return processor_of(self.spec, self.control, self.counters.errors)

    def _producer_conf(self) -> Mapping[str, Any]:
        """Return the producer settings of this start of the task. The client is chosen once, for its first producer."""
        if not self.spec.output.chooses_client and not self.spec.commits.ledger_topic:
            return self.spec.output.producer_conf
        if self._conf is None:
            self._conf = chosen_conf(
                self.spec, form_of(self.spec), self._new_processor, reads_batches=reads_batches(self.spec)
            )
        return self._conf

    @property
    def _makes_smaller(self) -> bool:
        return makes_smaller(self.spec)

    def _open_delivery(self) -> Delivery:
        conf = self._settings()
        if wants_reports(self.spec):
            conf["delivery.report.only.error"] = False
        if self.spec.output.transactional_id is None:
            flush_s = self.spec.commits.offset_flush_timeout_ms / 1000
            delivery: Delivery = PlainDelivery(conf, self.spec.output.offsets_topic, flush_s, group_of(self.spec))
        else:
            on_failure = self.control.wake if runs_ahead(self.spec) else None
            delivery = self._open_lanes(conf, self.spec.output.transactional_id, on_failure, group_of(self.spec))
        self._delivery = with_copies(delivery, self._copier, self.spec.output.offsets_topic)
        return self._delivery

    def _replace_delivery(self, book: OffsetBook) -> Delivery:
        """Retire a struck producer (E5), or take a second one.

        After a strike the task continues if what it committed is stored (E7). A task that only takes a second producer
        knows that, and reads no offsets: that would block until all transactions of other tasks have ended.
        """
        is_struck = self._retire_delivery()
        delivery = self._open_delivery()
        if not is_struck:
            admitted(self._admit_call(self.spec, wants_offsets=False))
            return delivery
        stored: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]] = self._admit().offsets
        if book.differs_from(stored):
            raise StartOverError("the stored offsets differ from what this incarnation committed last")
        return delivery
