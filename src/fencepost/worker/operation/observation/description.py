"""What is known of a connector by its config alone, without a question to the system that it is for."""

from collections.abc import Sequence
from typing import NamedTuple

from fencepost.api import ExactlyOnceSupport, SinkConnector
from fencepost.cluster.figures import Delivery
from fencepost.config import ConfigError
from fencepost.config.connector import ExactlyOnceDemand, SourceConnectorConfig
from fencepost.config.reference import RawConfig, given_values
from fencepost.config.worker import ExactlyOnceSource, WorkerConfig
from fencepost.hook.hosted_task import KnowsSettings
from fencepost.plugin import registry
from fencepost.worker.connector_classes import kind_of_config, typical_class_of
from fencepost.worker.validation.validation import config_warnings

_WORKERS = WorkerConfig.key_of("exactly_once_source_support")
_OWN = SourceConnectorConfig.key_of("exactly_once_support")
_DEMAND = f"{_OWN}={ExactlyOnceDemand.REQUIRED.value}"


def delivery_of(config: RawConfig, worker: WorkerConfig) -> Delivery:
    """Return what a connector with this config promises on workers with that one. Never raises."""
    try:
        connector = typical_class_of(config)
    except ConfigError:
        return Delivery(None, "its class is not installed on this worker")
    if issubclass(connector, SinkConnector):
        return _of_sink(_support(connector, config))
    if not worker.is_exactly_once:
        found = f"the workers' file has {_WORKERS}={worker.exactly_once.value}"
        default = "" if worker.originals.get(_WORKERS) else ", which is Kafka Connect's default"
        remedy = f"add {_WORKERS}={ExactlyOnceSource.ENABLED.value} to the file of each worker"
        return Delivery(False, f"{found}{default}", remedy)
    if (config.get(_OWN) or "").strip().lower() == ExactlyOnceDemand.REQUIRED.value:
        return Delivery(True)  # validation has asked the connector
    if hasattr(connector, "java"):  # to ask it takes seconds
        return Delivery(None, "the connector was not asked", f"add {_DEMAND} to its config: it is asked then")
    return _of_source(_support(connector, config))


def _support(connector: type, config: RawConfig) -> ExactlyOnceSupport | None:
    """Ask an instance; it may refer to values that are not looked up here, and its code may raise anything."""
    try:
        found: ExactlyOnceSupport | None = connector(given_values(config)).exactly_once_support()
    except BaseException:
        return None
    return found


def _of_sink(support: ExactlyOnceSupport | None) -> Delivery:
    if support is ExactlyOnceSupport.SUPPORTED:
        return Delivery(True)
    if support is ExactlyOnceSupport.UNSUPPORTED:
        return Delivery(False, "it writes again what was not committed when a task ended")
    why = "its class does not say whether it ignores records that are put again after a task has ended"
    return Delivery(None, why)


def _of_source(support: ExactlyOnceSupport | None) -> Delivery:
    if support is ExactlyOnceSupport.SUPPORTED:
        return Delivery(True)
    if support is ExactlyOnceSupport.UNSUPPORTED:
        return Delivery(False, "the connector says that it cannot be with this config")
    return Delivery(None, "its class does not say whether it reads the same records again from an offset")


class Description(NamedTuple):
    """The fields of `ConnectorFigures` that are not its tasks'; what is not known is None."""

    kind: str | None = None
    delivery: Delivery | None = None
    warnings: Sequence[str] | None = None


def described(config: RawConfig, worker: WorkerConfig) -> Description:
    """Return what is known of a connector with this config. Never raises, and starts no JVM."""
    return Description(kind_of_config(config), delivery_of(config, worker), _warnings(config, worker))


def _warnings(config: RawConfig, worker: WorkerConfig) -> Sequence[str] | None:
    try:
        connector = typical_class_of(config)
        if isinstance(connector, KnowsSettings) and connector.known_settings() is None:
            return None
        return [each.message for each in config_warnings(config, worker=worker, plugins=registry())]
    except ConfigError:
        return None
