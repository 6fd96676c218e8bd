"""What is known of a connector by its config alone, without a question to the system that it is for."""

from collections.abc import Sequence
from typing import NamedTuple

from fencepost.api.hosted_task import KnowsSettings
from fencepost.cluster.figures import Delivery
from fencepost.config import ConfigError
from fencepost.config.raw import RawConfig
from fencepost.config.worker import WorkerConfig
from fencepost.plugin import registry
from fencepost.worker.connector_classes import kind_of_config, typical_class_of
from fencepost.worker.operation.observation.delivery import delivery_of
from fencepost.worker.validation.validation import config_warnings


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
