"""Builds a task, its transforms and its converters from the class names in a spec's configs."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from fencepost.api import Converter, HeaderConverter
from fencepost.api.hosted_task import ChoosesTaskClass, TaskPlace, converts_itself
from fencepost.config import ConfigError
from fencepost.config.connector import PLUGIN_VERSION, ConnectorConfig
from fencepost.config.raw import given_values
from fencepost.plugin import find, use_plugin_path
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control
from fencepost.task.failure.tolerance import ErrorCounters, Tolerance
from fencepost.transform.chain import Chain

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
    """Let this process find the plug-ins of the worker."""
    _use_plugin_path(spec.look_up.plugin_path, spec.look_up.java_options)


@lru_cache(maxsize=1)
def _use_plugin_path(directories: tuple[str, ...], java_options: tuple[str, ...]) -> None:
    if directories:
        use_plugin_path(directories, java_options)


def given_properties(spec: TaskSpec) -> dict[str, str]:
    return given_values(spec.connector_config)


def place_of(spec: TaskSpec) -> TaskPlace:
    """Return which task it is, for one whose code runs in another process."""
    return TaskPlace(spec.connector, spec.task, spec.incarnation, given_properties(spec))


def conversion_of(
    spec: TaskSpec, control: Control, counters: ErrorCounters, way_out: Mapping[str, str] | None = None
) -> Conversion:
    """Return what records go through; nothing changes those of a task that converts them itself.

    `way_out`: the properties that name converters and transforms, instead of the config's own.
    """
    properties = given_properties(spec)
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
    if way_out is None and _converts_itself(spec):
        way_out = dict.fromkeys(_CONVERTERS, _BYTES)
    properties = properties if way_out is None else dict(way_out)
    key: Converter = converter_of(properties, _KEY)
    value: Converter = converter_of(properties, _VALUE)
    header: HeaderConverter = converter_of(properties, _HEADER, kind="header_converter")
    return Chain.from_config(properties, find), key, value, header, tolerance


def _converts_itself(spec: TaskSpec) -> bool:
    """Say whether the connector's tasks return or take bytes: transforms and converters are applied elsewhere."""
    try:
        return converts_itself(getattr(connector_class(spec), "task", None))
    except (ConfigError, KeyError):  # the task cannot be created either
        return False


def converter_of(properties: Mapping[str, str], key: str, kind: str = "converter") -> Any:
    """Return the converter that `key` names, configured with the properties that start with `key.`."""
    prefix = f"{key}."
    own = {k[len(prefix) :]: v for k, v in properties.items() if k.startswith(prefix)}
    own["converter.type"] = key.split(".")[0]
    return find(kind, properties[key], own.pop(PLUGIN_VERSION, None))(own)
