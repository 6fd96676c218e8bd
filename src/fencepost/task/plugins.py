"""Builds a task and its processing from the class names in a spec's configs."""

from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any

from fencepost.api import Converter, Form, HeaderConverter, SourceTask
from fencepost.config.connector import ConnectorConfig, SourceConnectorConfig
from fencepost.config.output import output_properties
from fencepost.plugin import find, use_plugin_path
from fencepost.task.control import Control
from fencepost.task.dead_letter import class_of
from fencepost.task.finish import GroupPositions
from fencepost.task.letters import TransactionLetters
from fencepost.task.processing import Processor
from fencepost.task.sink.processing import SinkProcessor
from fencepost.task.spec import TaskSpec
from fencepost.task.stream.processing import StreamProcessor
from fencepost.task.tolerance import ErrorCounters, Tolerance
from fencepost.task.topics import TopicCreation
from fencepost.transform.chain import Chain


def connector_of(spec: TaskSpec) -> tuple[Any, Any]:
    """Return the task's typed config (its connector class, parsed from the task's properties) and a new task."""
    return _config_of(spec), _connector_class(spec).task()


def form_of(spec: TaskSpec) -> Form:
    """Return the form in which the task's `poll` returns records."""
    found: Form = _connector_class(spec).task.form(_config_of(spec))
    return found


def tracks_records(spec: TaskSpec) -> bool:
    """Say whether the task overrides `commit_record`, and so is called for every record."""
    return _connector_class(spec).task.commit_record is not SourceTask.commit_record


def wants_reports(spec: TaskSpec) -> bool:
    """Say whether the producer must report every acknowledged record."""
    task: type[SourceTask] = _connector_class(spec).task
    if task.closing is not SourceTask.closing:
        return True
    has_updates = task.update_offsets is not SourceTask.update_offsets
    return tracks_records(spec) or (has_updates and not spec.is_exactly_once)


def makes_smaller(spec: TaskSpec) -> bool:
    """Say whether transactions can be made smaller, by the task itself or by ending them between its polls."""
    task: type[SourceTask] = _connector_class(spec).task
    return task.heeds_transaction_bytes or spec.boundary == "interval"


def group_of(spec: TaskSpec) -> GroupPositions | None:
    """Return how a group keeps the connector's offsets; None if they are not kept in a group."""
    if not spec.has_offsets_in_group:
        return None
    given = {k: v for k, v in spec.connector_config.items() if v is not None}
    held = _connector_class(spec)(given).offsets_in_group(spec.connector)
    return None if held is None else GroupPositions(held)


def runs_ahead(spec: TaskSpec) -> bool:
    """Say whether the next batch may be polled before the last one is committed.

    Never with connector-defined boundaries or a tracking of records. Not if the author acts on commits, unless the
    class allows it (`polls_ahead`).
    """
    if not spec.is_exactly_once or spec.boundary == "connector" or tracks_records(spec):
        return False
    task: type[SourceTask] = _connector_class(spec).task
    if task.polls_ahead is not None:
        return task.polls_ahead
    return task.commit is SourceTask.commit and task.update_offsets is SourceTask.update_offsets


def _config_of(spec: TaskSpec) -> Any:
    return _connector_class(spec)(dict(spec.task_config))


def _connector_class(spec: TaskSpec) -> Any:
    _use_plugin_path(spec.plugin_path)
    return find("connector", str(spec.connector_config["connector.class"]))


@lru_cache(maxsize=1)
def _use_plugin_path(directories: tuple[str, ...]) -> None:
    if directories:
        use_plugin_path(directories)


def processor_of(spec: TaskSpec, control: Control, counters: ErrorCounters) -> Processor:
    """Return the transforms, converters and error handling that a source's config asks for."""
    processor = Processor(*_parts(spec, control, counters))
    if spec.dead_letters_topic and processor.tolerance.tolerates_all:  # else the task fails instead of going past it
        processor.letters = TransactionLetters(spec, partial(class_of, processor))
        processor.tolerance.tell = processor.letters.tell
    return processor


def sink_processor_of(spec: TaskSpec, control: Control, counters: ErrorCounters) -> SinkProcessor:
    """Return the same for a sink."""
    return SinkProcessor(*_parts(spec, control, counters), resend_topic=spec.resend_topic)


def stream_processor_of(spec: TaskSpec, control: Control, counters: ErrorCounters) -> StreamProcessor:
    """Return the same for a stream: for its input, and for its output, whose settings begin with `output.`."""
    given = _given(spec)
    incoming = SinkProcessor(*_parts(spec, control, counters), resend_topic=spec.resend_topic)
    return StreamProcessor(spec, incoming, Processor(*_parts(spec, control, counters, output_properties(given))))


def _given(spec: TaskSpec) -> dict[str, str]:
    return {k: v for k, v in spec.connector_config.items() if v is not None}


def _parts(
    spec: TaskSpec, control: Control, counters: ErrorCounters, way_out: Mapping[str, str] | None = None
) -> tuple[Chain, Converter, Converter, HeaderConverter, Tolerance]:
    """`way_out`: the properties that name converters and transforms, instead of the config's own."""
    properties = _given(spec)
    config = ConnectorConfig(properties)
    tolerance = Tolerance(
        tolerates_all=config.errors_tolerance.lower() == "all",
        retry_timeout_ms=config.errors_retry_timeout_ms,
        retry_delay_max_ms=config.errors_retry_delay_max_ms,
        logs=config.errors_log_enable,
        logs_messages=config.errors_log_include_messages,
        control=control,
        task_id=spec.id,
        counters=counters,
    )
    properties = properties if way_out is None else dict(way_out)
    key: Converter = converter_of(properties, "key.converter")
    value: Converter = converter_of(properties, "value.converter")
    header: HeaderConverter = converter_of(properties, "header.converter", kind="header_converter")
    return Chain.from_config(properties, find), key, value, header, tolerance


def topics_of(spec: TaskSpec) -> TopicCreation:
    """Return the object that creates the connector's topics (KIP-158)."""
    config = SourceConnectorConfig({k: v for k, v in spec.connector_config.items() if v is not None})
    groups = config.topic_creation() if spec.topic_creation_enabled else ()
    return TopicCreation(groups, spec.admin_conf)


def converter_of(properties: Mapping[str, str], key: str, kind: str = "converter") -> Any:
    """Return the converter that `key` names, configured with the properties that start with `key.`."""
    prefix = f"{key}."
    own = {k[len(prefix) :]: v for k, v in properties.items() if k.startswith(prefix)}
    own["converter.type"] = key.split(".")[0]
    return find(kind, properties[key])(own)
