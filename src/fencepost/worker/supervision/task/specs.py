"""The spec of a start: everything that the host of a task needs to run it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fencepost.cluster.fencing import task_transactional_id
from fencepost.config.connector import (
    DeadLetterConfig,
    RuntimeChoice,
    SinkChoice,
    SinkConnectorConfig,
    SourceConnectorConfig,
    StreamConnectorConfig,
)
from fencepost.config.file_limit import file_limit
from fencepost.config.raw import RawConfig, given_values
from fencepost.config.reference import has_references
from fencepost.config.tracing import TracingConfig
from fencepost.config.transaction import interval_of
from fencepost.config.worker import WorkerConfig
from fencepost.kafka.setting.client_settings import (
    OF_A_STREAM,
    chosen_client,
    most_records,
    own_batch_bytes,
    range_conf,
    transaction_timeout_ms,
)
from fencepost.kafka.setting.table import AUTO
from fencepost.reference import providers_of
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.task.channel.client_recipe import ClientRecipe
from fencepost.task.channel.task_spec import (
    ADMIN,
    CONSUMER,
    PRODUCER,
    READER,
    READER_ADMIN,
    ClosedSpec,
    CollectorSpec,
    CommitSpec,
    DeadLetterSpec,
    InputSpec,
    LimitSpec,
    LookUpSpec,
    OutputSpec,
    References,
    TaskSpec,
    TracingSpec,
)
from fencepost.worker.client_recipes import ClientRecipes
from fencepost.worker.closed_topics import require_open_source, require_open_topics
from fencepost.worker.connector_classes import is_dataframe, is_stream
from fencepost.worker.fixed_reference import refuse_fixed_references
from fencepost.worker.ledger_choice import ledger_topic
from fencepost.worker.settings import (
    RECENT_S,
    WorkerSettings,
    logged,
    looked_up,
    own_group,
    sink_client_id,
)
from fencepost.worker.supervision.task.handle import TaskHandle


def task_spec(settings: WorkerSettings, snapshot: ClusterSnapshot, handle: TaskHandle) -> TaskSpec:
    """Return the spec of a start of a task, of any kind, with the values that its configs refer to.

    Raises ConfigError, or RetriableError if a store with such values is away.
    """
    stored, stored_task = snapshot.connectors[handle.id.connector], snapshot.task_config(handle.id) or {}
    if not has_references(stored) and not has_references(stored_task):
        return _made(settings, snapshot, handle, stored, stored_task)
    refuse_fixed_references(stored)
    config = looked_up(settings.config, stored)
    task = looked_up(settings.config, stored_task, RECENT_S)  # it refers to what the connector's config refers to
    spec = _made(settings, snapshot, handle, config.require(), task.require())
    ttl_ms = min((each.ttl_ms for each in (config, task) if each.ttl_ms is not None), default=None)
    references = References(
        providers_of(settings.config.originals).settings,
        {key: value for key, value in stored.items() if has_references({key: value})},
        {key: value for key, value in stored_task.items() if has_references({key: value})},
        _recipes(ClientRecipes(settings.config, settings.is_exactly_once), stored, spec),
        ttl_ms,
        tuple({**config.found, **task.found}.values()),
    )
    return replace(spec, look_up=replace(spec.look_up, references=references))


def _recipes(recipes: ClientRecipes, stored: RawConfig, spec: TaskSpec) -> tuple[ClientRecipe, ...]:
    """Return how each client in the spec was made."""
    found: dict[str, ClientRecipe] = {}
    group, client_id = own_group(spec.connector), sink_client_id(spec.connector, spec.task)
    if spec.is_sink:
        fixed = OF_A_STREAM if spec.is_stream else {}
        found[CONSUMER] = replace(recipes.sink(stored, group, client_id), fixed=fixed)
    if spec.input.reader_conf:
        found |= {READER: recipes.range(stored, group), READER_ADMIN: recipes.sink_admin(stored)}
    if spec.is_stream:
        found[PRODUCER] = recipes.fencing(stored)
    elif spec.is_sink:
        found[PRODUCER] = recipes.plain_producer(stored)
    else:
        found[PRODUCER] = recipes.task_producer(stored)
    found[ADMIN] = recipes.task_admin(stored)
    is_used = {PRODUCER: bool(spec.output.producer_conf), ADMIN: bool(spec.output.admin_conf)}
    return tuple(replace(recipe, place=place) for place, recipe in found.items() if is_used.get(place, True))


def _made(
    settings: WorkerSettings, snapshot: ClusterSnapshot, handle: TaskHandle, raw: RawConfig, task_config: RawConfig
) -> TaskSpec:
    """Return the spec of a start with configs that have no references."""
    connector, task = handle.id
    spec = TaskSpec(
        connector,
        task,
        handle.generation,
        handle.incarnation,
        settings.effective_config(raw),
        dict(task_config),
        target_state=snapshot.target_state(connector).value,
        look_up=LookUpSpec(
            tuple(settings.config.plugin_path or ()),
            java_options=settings.config.java_options,
            tracing=_tracing(settings.config),
            limits=_limits(settings.config),
        ),
        task_count=1 if handle.identity.is_sink else snapshot.task_counts.get(connector, 1),
    )
    transactional_id = task_transactional_id(settings.group_id, connector, task)
    if not handle.identity.is_sink:
        require_open_source(settings, raw, task_config)
        spec = _of_source(settings, raw, spec, transactional_id if settings.is_exactly_once else None)
        return _with_closed(settings, raw, spec)
    spec = _of_sink(settings, raw, spec)
    if is_stream(snapshot, connector):
        spec = _of_stream(settings, raw, spec, transactional_id)
    spec = _in_epochs(settings, raw, spec) if is_dataframe(snapshot, connector) else spec
    return _with_closed(settings, raw, spec)


def _with_closed(settings: WorkerSettings, raw: RawConfig, spec: TaskSpec) -> TaskSpec:
    """Add the topics that the task may not read or write to. Raises ConfigError if its connector names one."""
    closed = require_open_topics(settings, raw, reads=spec.is_sink, writes=bool(spec.output.producer_conf))
    names = ClosedSpec(closed.reads.names, closed.writes.names)
    return replace(spec, look_up=replace(spec.look_up, closed=names))


def _limits(config: WorkerConfig) -> LimitSpec:
    """Return what the worker's file keeps from connectors."""
    files = file_limit()
    return LimitSpec(files.allowed, files.refused, tuple(config.plugin_disabled))


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


def _of_source(settings: WorkerSettings, raw: RawConfig, spec: TaskSpec, transactional_id: str | None) -> TaskSpec:
    producer = settings.task_producer_conf(raw)
    has_group = settings.offsets_in_group(spec.connector, raw) is not None
    output = OutputSpec(
        producer,
        settings.offsets_topic(raw),
        transactional_id,
        settings.task_admin_conf(raw),
        settings.config.topic_creation_enable,
        chooses_client=chosen_client(settings.producer_properties(raw)) == AUTO,
        copies_offsets=not has_group and settings.has_own_offsets(raw),
        has_offsets_in_group=has_group,
    )
    dead_letters = _dead_letters(DeadLetterConfig(given_values(raw)))
    commits = _commits(settings, raw, producer)
    if transactional_id is not None:
        commits = replace(commits, ledger_topic=ledger_topic(settings.config, raw))
    return replace(spec, output=output, commits=commits, dead_letters=dead_letters)


def _of_sink(settings: WorkerSettings, raw: RawConfig, spec: TaskSpec) -> TaskSpec:
    sink = SinkConnectorConfig(given_values(raw))
    output = OutputSpec()
    if sink.dead_letters_topic:
        output = OutputSpec(settings.dead_letters_conf(raw), admin_conf=settings.task_admin_conf(raw))
    read = InputSpec(
        settings.task_consumer_conf(spec.connector, raw, spec.task),
        tuple(sink.topics),
        sink.topics_regex,
        most_records(settings.consumer_properties(raw)),
        SinkChoice(given_values(raw)).resend_topic or "",
    )
    return replace(spec, output=output, commits=_flushes(settings), input=read, dead_letters=_dead_letters(sink))


def _of_stream(settings: WorkerSettings, raw: RawConfig, spec: TaskSpec, transactional_id: str) -> TaskSpec:
    """Turn a sink's spec into that of a stream, which writes in transactions on any worker."""
    stream = StreamConnectorConfig(given_values(raw))
    producer, admin = settings.fencing_conf(raw), settings.task_admin_conf(raw)
    consumer = {**spec.input.consumer_conf, **OF_A_STREAM}
    return replace(
        spec,
        output=OutputSpec(producer, "", transactional_id, admin, settings.config.topic_creation_enable),
        commits=_commits(settings, raw, producer),
        input=replace(spec.input, consumer_conf=consumer, foreign_ids=tuple(stream.foreign_producers)),
    )


def _in_epochs(settings: WorkerSettings, raw: RawConfig, spec: TaskSpec) -> TaskSpec:
    """Add to a spec what planning epochs and reading them on executors needs."""
    reader = range_conf(settings.consumer_properties(raw), settings.sink_group(spec.connector, raw))
    read = replace(spec.input, reader_admin_conf=settings.sink_admin_conf(raw), reader_conf=logged(reader))
    return replace(spec, input=read)


def _commits(settings: WorkerSettings, raw: RawConfig, producer: Mapping[str, Any]) -> CommitSpec:
    """Return when a task that writes transactions commits."""
    source = SourceConnectorConfig(given_values(raw))
    own_ms, timeout_ms = source.transaction_boundary_interval_ms, transaction_timeout_ms(producer)
    return replace(
        _flushes(settings),
        boundary=source.transaction_boundary.lower(),
        boundary_interval_ms=interval_of(own_ms, settings.config.offset_flush_interval_ms, timeout_ms),
        lanes=RuntimeChoice(given_values(raw)).transaction_lanes,
        batch_bytes=own_batch_bytes(settings.producer_properties(raw)),
    )


def _flushes(settings: WorkerSettings) -> CommitSpec:
    """Return how often offsets are flushed outside of transactions."""
    return CommitSpec(
        offset_flush_interval_ms=settings.config.offset_flush_interval_ms,
        offset_flush_timeout_ms=settings.config.offset_flush_timeout_ms,
    )


def _dead_letters(config: DeadLetterConfig) -> DeadLetterSpec:
    return DeadLetterSpec(config.dead_letters_topic, config.dead_letters_replication, config.dead_letters_headers)
