"""Builds a task, its transforms and its converters from the class names in a spec's configs."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fencepost.api import Converter, HeaderConverter
from fencepost.builtin.transform.chain import Chain, Find
from fencepost.config import ConfigError
from fencepost.config.connector import PLUGIN_VERSION, ConnectorConfig
from fencepost.config.connector_limit import FileLimit, use_file_limit
from fencepost.config.reference import given_values
from fencepost.hook.hosted_task import ChoosesTaskClass, HostedSink, HostedTask, TaskPlace, converts_itself
from fencepost.plugin import VersionUnknownError, ensure_plugin_path, find, registry
from fencepost.record import SinkRecord
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control
from fencepost.task.failure.tolerance import ErrorCounters, Tolerance

Conversion = tuple[Chain, Converter, Converter, HeaderConverter, Tolerance]
"""Transforms, the converters of key, value and headers, and the error handling around them."""

_CONVERTERS = _KEY, _VALUE, _HEADER = "key.converter", "value.converter", "header.converter"
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_CLASS, _VERSION = (ConnectorConfig.key_of(name) for name in ("connector_class", "connector_version"))


def connector_of(spec: TaskSpec) -> tuple[Any, Any]:
    """Return the task's typed config (its connector class, parsed from the task's properties) and a new task."""
    return config_of(spec), task_class(spec)()


def task_class(spec: TaskSpec) -> Any:
    """Return the class of the task. It may depend on the task's config."""
    connector = connector_class(spec)
    if isinstance(connector, ChoosesTaskClass):
        return connector.task_class_for(given_values(spec.task_config))
    return connector.task


def config_of(spec: TaskSpec) -> Any:
    return connector_class(spec)(dict(spec.task_config))


def connector_class(spec: TaskSpec) -> Any:
    use_plugins(spec)
    return find("connector", str(spec.connector_config[_CLASS]), spec.connector_config.get(_VERSION))


def use_plugins(spec: TaskSpec) -> None:
    """Let this process find the plug-ins of the worker, and limit its connectors as the worker does."""
    limits = spec.look_up.limits
    use_file_limit(FileLimit(limits.allowed_files, limits.refused_files))
    if spec.look_up.plugin_path or limits.disabled_plugins:
        ensure_plugin_path(spec.look_up.plugin_path, spec.look_up.java_options, limits.disabled_plugins)


def given_properties(spec: TaskSpec) -> dict[str, str]:
    return given_values(spec.connector_config)


def place_of(spec: TaskSpec) -> TaskPlace:
    """Return which task it is, for one whose code runs in another process."""
    return TaskPlace(spec.connector, spec.task, spec.incarnation, given_properties(spec))


def conversion_of(
    spec: TaskSpec, control: Control, counters: ErrorCounters, chain: "ChainConfig | None" = None
) -> Conversion:
    """Return the transforms and converters of a task; a task that converts records itself has none.

    `chain`: what names converters and transforms, by default `chain_config`.
    """
    config = ConnectorConfig(given_properties(spec))
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
    chain = chain_config(spec) if chain is None else chain
    key: Converter = converter_of(chain, _KEY)
    value: Converter = converter_of(chain, _VALUE)
    header: HeaderConverter = converter_of(chain, _HEADER, kind="header_converter")
    return Chain.from_config(chain.properties, chain.find), key, value, header, tolerance


class ChainConfig(NamedTuple):
    """What names the transforms and converters that a slot applies, and how their classes are found."""

    properties: Mapping[str, str]
    find: Find
    takes_records: bool = False
    """Whether the rest of the chain is in the host of a Java task: records cross with their values."""
    require_form: Callable[[SinkRecord], None] | None = None
    """Raises RecordError for what a sink's host cannot be sent."""


def chain_config(spec: TaskSpec) -> ChainConfig:
    """Return the part of a config that the slot applies. Tasks that convert themselves leave only bytes to it."""
    properties = given_properties(spec)
    try:
        connector = connector_class(spec)
        task = getattr(connector, "task", None)
    except VersionUnknownError:  # a moment later it may be known, and the task be created
        raise
    except (ConfigError, KeyError):  # the task cannot be created either
        return ChainConfig(properties, find)
    if not converts_itself(task):
        return ChainConfig(properties, find)
    plugins = registry()
    java = plugins.java
    divided = None if java is None else java.divide(properties, is_source=issubclass(task, HostedTask))
    if divided is None:
        return ChainConfig(dict.fromkeys(_CONVERTERS, _BYTES), find)
    form = task.require_form if issubclass(task, HostedSink) else None
    return ChainConfig(divided.rest, plugins.beside(connector).find, takes_records=True, require_form=form)


def converter_of(chain: ChainConfig, key: str, kind: str = "converter") -> Any:
    """Return the converter that `key` names, configured with the properties that start with `key.`."""
    prefix = f"{key}."
    own = {k[len(prefix) :]: v for k, v in chain.properties.items() if k.startswith(prefix)}
    own["converter.type"] = key.split(".")[0]
    return chain.find(kind, chain.properties[key], own.pop(PLUGIN_VERSION, None))(own)
