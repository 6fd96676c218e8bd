"""What a connector's class must be before its task can run."""

from typing import Any

from fencepost.api import ConfigError, SinkConnector, SourceConnector, StreamConnector
from fencepost.plugin.mistake import class_fault

_USE = {
    SourceConnector: "SourceRun or SourceConformance",
    SinkConnector: "SinkRun or SinkConformance",
    StreamConnector: "StreamRun or StreamConformance",
}


def ensure_runnable(connector: Any, kind: type[Any]) -> None:
    """Raise ConfigError unless this is a class of connectors of a kind, with a task; as a worker would refuse it."""
    if not isinstance(connector, type):
        raise ConfigError(f"{connector!r} is no class: pass the class of the connector, not an instance of it")
    found = next((one for one in (StreamConnector, SinkConnector, SourceConnector) if issubclass(connector, one)), None)
    if found is None:
        raise ConfigError(
            f"{connector.__name__} is no {kind.__name__}: pass the class of the connector, not of its task"
        )
    if getattr(connector, "is_dataframe", False):
        raise ConfigError(
            f"{connector.__name__} has no task, as Spark does its work: test its methods with a Spark session. "
            "DataFrameSinkConformance does so for sinks, DataFrameSourceConformance for sources"
        )
    if found is not kind:
        raise ConfigError(f"{connector.__name__} is a {found.__name__}, not a {kind.__name__}: use {_USE[found]}")
    fault = class_fault(connector)
    if fault is not None:
        raise ConfigError(fault)
