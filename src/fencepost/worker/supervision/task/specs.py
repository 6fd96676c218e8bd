"""The worker's part of the start of a task: steps 1 to 4 of docs/architecture.md, and the spec that the host gets."""

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, replace
from typing import Any

from fencepost.api import RetriableError
from fencepost.cluster.errors import (
    BadRequestError,
    ConflictError,
    FencingRefusedError,
    ForbiddenError,
    NotFoundError,
    OperationError,
)
from fencepost.cluster.fencing import is_covered, task_transactional_id
from fencepost.cluster.info import ConnectorType
from fencepost.cluster.operations import REQUEST_S
from fencepost.cluster.running import why_not
from fencepost.config.connector import (
    DeadLetterConfig,
    SinkChoice,
    SourceConnectorConfig,
    StreamConnectorConfig,
    TransactionBoundary,
    interval_of,
)
from fencepost.config.connector_limit import file_limit
from fencepost.config.reference import RawConfig, has_references
from fencepost.config.tracing import TracingConfig
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaUnavailableError, ReadTimeoutError
from fencepost.kafka.setting.client_settings import (
    OF_A_STREAM,
    chosen_client,
    most_records,
    own_batch_bytes,
    transaction_timeout_ms,
)
from fencepost.kafka.setting.table import AUTO
from fencepost.reference import providers_of
from fencepost.storage.change import TaskId
from fencepost.storage.internal_topics import READ_S, ensure_ledger_topic, ensure_own_offsets_topic
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.task.channel.task_spec import (
    ADMIN,
    CONSUMER,
    PRODUCER,
    READER,
    READER_ADMIN,
    ClientRecipe,
    ClosedSpec,
    CollectorSpec,
    CommitSpec,
    DeadLetterSpec,
    InputSpec,
    LimitSpec,
    LookUpSpec,
    OutputSpec,
    References,
    RunSpec,
    TaskSpec,
    TracingSpec,
)
from fencepost.worker.closed_topics import require_open_source, require_open_topics
from fencepost.worker.plan import (
    NO_EFFECT,
    RECENT_S,
    Client,
    ConnectorPlan,
    defines_transactions,
    is_dataframe,
    is_stream,
    ledger_topic,
    logged,
    looked_up,
    own_group,
    refuse_fixed_references,
    sink_client_id,
    type_of,
)
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervision.task.handle import TaskHandle

log = logging.getLogger(__name__)

Confs = Mapping[str, Mapping[str, Any]]
"""librdkafka's settings of a task's clients, by their places in the spec."""


def task_spec(settings: WorkerSettings, snapshot: ClusterSnapshot, handle: TaskHandle) -> TaskSpec:
    """Return the spec of a start of a task, of any kind, with the values that its configs refer to.

    Raises ConfigError, or RetriableError if a store with such values is away.
    """
    stored, stored_task = snapshot.connectors[handle.id.connector], snapshot.task_config(handle.id) or {}
    refuse_fixed_references(stored)
    config = looked_up(settings.config, stored)
    task = looked_up(settings.config, stored_task, RECENT_S)  # it refers to what the connector's config refers to
    config.require()
    task_config = task.require()
    plan = ConnectorPlan(settings.config, stored, config)
    clients = _clients(plan, snapshot, handle)
    spec = _made(settings, snapshot, handle, plan, task_config, clients)
    if not has_references(stored) and not has_references(stored_task):
        return spec
    ttl_ms = min((each.ttl_ms for each in (config, task) if each.ttl_ms is not None), default=None)
    references = References(
        providers_of(settings.config.originals).settings,
        {key: value for key, value in stored.items() if has_references({key: value})},
        {key: value for key, value in stored_task.items() if has_references({key: value})},
        tuple(replace(recipe, place=place) for place, recipe in clients.items()),
        ttl_ms,
        tuple({**config.found, **task.found}.values()),
    )
    return replace(spec, look_up=replace(spec.look_up, references=references))


def _clients(plan: ConnectorPlan, snapshot: ClusterSnapshot, handle: TaskHandle) -> dict[str, ClientRecipe]:
    """Return what the task's clients are made of, by their places in the spec."""
    connector, task = handle.id
    recipe, group = plan.clients.recipe, own_group(connector)
    if not handle.identity.is_sink:
        return {PRODUCER: recipe(Client.TASK_PRODUCER), ADMIN: recipe(Client.TASK_ADMIN)}
    found = {CONSUMER: recipe(Client.SINK, group, sink_client_id(connector, task))}
    if is_dataframe(snapshot, connector):
        found |= {READER: recipe(Client.RANGE, group), READER_ADMIN: recipe(Client.SINK_ADMIN)}
    if is_stream(snapshot, connector):
        found[CONSUMER] = replace(found[CONSUMER], fixed=OF_A_STREAM)
        found |= {PRODUCER: recipe(Client.FENCING), ADMIN: recipe(Client.TASK_ADMIN)}
    elif plan.sink.dead_letters_topic:
        found |= {PRODUCER: recipe(Client.PLAIN_PRODUCER), ADMIN: recipe(Client.TASK_ADMIN)}
    return found


def _made(
    settings: WorkerSettings,
    snapshot: ClusterSnapshot,
    handle: TaskHandle,
    plan: ConnectorPlan,
    task_config: RawConfig,
    clients: Mapping[str, ClientRecipe],
) -> TaskSpec:
    """Return the spec with values in place of references."""
    connector, task = handle.id
    for key in plan.values.keys() - plan.effective.keys():
        log.warning("%s: %s", key, NO_EFFECT)
    worker, files, is_source = settings.config, file_limit(), not handle.identity.is_sink
    spec = TaskSpec(
        connector,
        task,
        handle.generation,
        handle.incarnation,
        plan.effective,
        dict(task_config),
        commits=CommitSpec(
            offset_flush_interval_ms=worker.offset_flush_interval_ms,
            offset_flush_timeout_ms=worker.offset_flush_timeout_ms,
        ),
        target_state=snapshot.target_state(connector).value,
        look_up=LookUpSpec(
            tuple(worker.plugin_path or ()),
            java_options=worker.java_options,
            tracing=_tracing(worker),
            limits=LimitSpec(files.allowed, files.refused, tuple(worker.plugin_disabled)),
        ),
        task_count=snapshot.task_counts.get(connector, 1) if is_source else 1,
        run=RunSpec(
            plan.runtime.is_dedicated,
            plan.runtime.progress_timeout_ms,
            plan.runtime.progress_timeout_action.lower() == "fail",
        ),
    )
    if is_source:
        require_open_source(settings, plan, task_config)
    confs = {place: logged(recipe.translated(plan.look_up)) for place, recipe in clients.items()}
    transactional_id = task_transactional_id(settings.group_id, connector, task)
    if is_source:
        spec = _of_source(settings, plan, spec, confs, transactional_id if settings.is_exactly_once else None)
    elif is_stream(snapshot, connector):
        spec = _of_stream(plan, _of_sink(plan, spec, confs), confs, transactional_id)
    else:
        spec = _of_sink(plan, spec, confs)
    letters = DeadLetterConfig(plan.given)
    closed = require_open_topics(settings, plan, reads=not is_source, writes=bool(spec.output.producer_conf))
    return replace(
        spec,
        dead_letters=DeadLetterSpec(
            letters.dead_letters_topic, letters.dead_letters_replication, letters.dead_letters_headers
        ),
        look_up=replace(spec.look_up, closed=ClosedSpec(closed.reads.names, closed.writes.names)),
    )


def _tracing(config: TracingConfig) -> TracingSpec | None:
    """Return where a task's spans go; None: nowhere."""
    if not config.is_traced:
        return None
    headers = "" if config.otel_headers is None else config.otel_headers.reveal()
    collector = CollectorSpec(config.spans_url, headers, config.otel_certificate or "", config.otel_timeout_ms)
    return TracingSpec(
        collector,
        config.otel_service_name,
        config.resource,
        config.otel_sampler,
        config.otel_sampler_arg,
        config.otel_queue_size,
        config.otel_delay_ms,
    )


def _of_source(
    settings: WorkerSettings, plan: ConnectorPlan, spec: TaskSpec, confs: Confs, transactional_id: str | None
) -> TaskSpec:
    has_group = plan.offsets_in_group(spec.connector) is not None
    output = OutputSpec(
        confs[PRODUCER],
        plan.offsets_topic,
        transactional_id,
        confs[ADMIN],
        plan.worker.topic_creation_enable,
        chooses_client=chosen_client(plan.clients.producer_properties) == AUTO,
        copies_offsets=not has_group and settings.has_own_offsets(plan),
        has_offsets_in_group=has_group,
    )
    commits = _commits(plan, spec.commits, confs[PRODUCER])
    if transactional_id is not None:
        commits = replace(commits, ledger_topic=ledger_topic(plan))
    return replace(spec, output=output, commits=commits)


def _of_sink(plan: ConnectorPlan, spec: TaskSpec, confs: Confs) -> TaskSpec:
    read = InputSpec(
        confs[CONSUMER],
        tuple(plan.sink.topics),
        plan.sink.topics_regex,
        most_records(plan.clients.consumer_properties),
        SinkChoice(plan.given).resend_topic or "",
        reader_conf=confs.get(READER, {}),
        reader_admin_conf=confs.get(READER_ADMIN, {}),
    )
    return replace(spec, output=OutputSpec(confs.get(PRODUCER, {}), admin_conf=confs.get(ADMIN, {})), input=read)


def _of_stream(plan: ConnectorPlan, spec: TaskSpec, confs: Confs, transactional_id: str) -> TaskSpec:
    """Turn a sink's spec into that of a stream, which writes in transactions on any worker."""
    return replace(
        spec,
        output=OutputSpec(confs[PRODUCER], "", transactional_id, confs[ADMIN], plan.worker.topic_creation_enable),
        commits=_commits(plan, spec.commits, confs[PRODUCER]),
        input=replace(spec.input, foreign_ids=tuple(StreamConnectorConfig(plan.given).foreign_producers)),
    )


def _commits(plan: ConnectorPlan, flushes: CommitSpec, producer: Mapping[str, Any]) -> CommitSpec:
    source = SourceConnectorConfig(plan.given)
    own_ms, timeout_ms = source.transaction_boundary_interval_ms, transaction_timeout_ms(producer)
    return replace(
        flushes,
        boundary=_boundary(plan, source),
        boundary_interval_ms=interval_of(own_ms, plan.worker.offset_flush_interval_ms, timeout_ms),
        lanes=plan.runtime.transaction_lanes,
        batch_bytes=own_batch_bytes(plan.clients.producer_properties),
    )


def _boundary(plan: ConnectorPlan, source: SourceConnectorConfig) -> str:
    """Return where transactions end: as the class says if it defines them, else as the config says."""
    if defines_transactions(plan.config):
        return TransactionBoundary.CONNECTOR.value
    return source.transaction_boundary.lower()


_PAUSES_S = (0.1, 0.5, 1.0)


def ensure_own_topic(settings: WorkerSettings, config: RawConfig, ledger: str) -> None:
    """Create the connector's own topics, if it has any, as its principal (KIP-618); refuse ones that lose data.

    `ledger` is the topic of its ledger (`ledger_topic`); empty if it has none.
    Raises ConfigError, KafkaAuthorizationError, or KafkaUnavailableError, which can be retried.
    """
    plan = settings.plan(config)
    has_offsets = settings.has_own_offsets(plan)
    if not has_offsets and not ledger:
        return
    admin = Admin(plan.clients.conf(Client.TASK_ADMIN), timeout_s=15.0)
    if has_offsets:
        ensure_own_offsets_topic(admin, plan.offsets_topic, settings.config)
    if ledger:
        ensure_ledger_topic(admin, ledger, settings.config.offset_storage_replication_factor)


class AbandonedError(Exception):
    """The start is abandoned. This is no failure: a newer generation or assignment brings a newer start."""


class AwayError(AbandonedError):
    """The start is abandoned, and tried again. Its status says why, as somebody may have to do something.

    Its connector's Kafka or a store with values that it needs is away, a transaction that hangs keeps the config topic
    from being read, or a round of fencing does not succeed.
    """


def check_current(snapshot: ClusterSnapshot, settings: WorkerSettings, task: TaskId, generation: int) -> str | None:
    """Return why a start is not, or is no longer, the one to run after it is fenced; None if it is. Pure."""
    reason = why_not(snapshot, (task, generation), settings.incarnation)
    if type_of(snapshot, task.connector) is ConnectorType.SINK:
        return reason  # its group fences predecessors, not a transactional id
    if reason is None and settings.is_exactly_once and not snapshot.is_ready(task.connector):
        return f"connector {task.connector} has task configs without a task-count record after them"
    if reason is None and settings.is_exactly_once and not is_covered(snapshot, task.connector):
        return f"connector {task.connector} writes to another cluster now, and has no task configs for it yet"
    return reason


@dataclass(frozen=True)
class Preparation:
    """Carries out the steps in a thread of the connector's, which the supervisor provides."""

    settings: WorkerSettings
    request_fencing: Callable[[str], "Future[None]"]
    read_to_end: Callable[[float], ClusterSnapshot]
    is_stopping: threading.Event
    remove_members: Callable[[TaskId, Mapping[str, Any], Callable[[], bool]], None]

    def prepare(self, handle: TaskHandle) -> TaskSpec:
        """Return the spec to hand to a host. Raises AbandonedError, or an error that makes the task fail."""
        if self.settings.is_exactly_once and not handle.identity.is_sink:
            self._fence(handle)  # step 2; one task before and after needs no round, as its id fences itself
        try:
            snapshot = self.read_to_end(READ_S)  # step 3
        except RetriableError as error:
            passes = isinstance(error, KafkaUnavailableError) and not isinstance(error, ReadTimeoutError)
            raise (AbandonedError if passes else AwayError)(str(error)) from error
        reason = check_current(snapshot, self.settings, handle.id, handle.generation)
        if reason is not None:
            raise AbandonedError(reason)
        try:
            spec = task_spec(self.settings, snapshot, handle)
            if not handle.identity.is_sink:
                ensure_own_topic(self.settings, spec.connector_config, spec.commits.ledger_topic)  # step 4
        except RetriableError as error:  # of the connector's Kafka, or of a store with secrets
            raise AwayError(str(error)) from error
        if handle.identity.is_sink:  # this start has not joined the group yet
            self.remove_members(handle.id, spec.input.consumer_conf, lambda: handle.is_live)
        return spec

    def why_away(self, config: RawConfig) -> str:
        """Return why the values that a connector's config refers to cannot be looked up now; empty if they can.

        One that does not exist can be looked up: a start says that it is missing.
        """
        known = looked_up(self.settings.config, config)
        return "" if known.away is None else "; ".join(known.faults.values())

    def _fence(self, handle: TaskHandle) -> None:
        """Ask for a fencing round, again while its error may pass; other errors fail the start.

        If it does not pass soon, the start is abandoned and made again: its status then says what it waits for.
        """
        for pause_s in _PAUSES_S:
            try:
                self.request_fencing(handle.id.connector).result(REQUEST_S)
                return
            except (ConflictError, NotFoundError) as error:
                raise AbandonedError(str(error)) from error
            except (FencingRefusedError, ForbiddenError, BadRequestError):
                raise
            except (OperationError, RetriableError, TimeoutError, CancelledError) as error:
                problem = f"the round of fencing before its start: {error or type(error).__name__}"
                log.warning("task %s waits for %s", handle.id, problem)
                if self.is_stopping.wait(pause_s) or not handle.is_live:
                    raise AbandonedError("the start is no longer wanted") from error
        raise AwayError(f"waits for {problem}")
