"""Which connectors have a ledger, and in which topic."""

from collections.abc import Mapping

from fencepost.api import Connector, DataFrameConnector, SourceConnector
from fencepost.config import ConfigError
from fencepost.config.connector import RuntimeChoice
from fencepost.config.raw import RawConfig, given_values
from fencepost.config.worker import ExactlyOnceSource, WorkerConfig
from fencepost.kafka.setting.client_settings import chosen_client, client_faults
from fencepost.kafka.setting.table import BATCH, LIBRDKAFKA
from fencepost.kafka.setting.translation import SettingsError
from fencepost.worker.client_recipes import producer_properties
from fencepost.worker.connector_classes import class_of, is_mirror

LEDGER_TOPIC = RuntimeChoice.key_of("ledger_topic")
_CLIENT = RuntimeChoice.key_of("producer_client")


def ledger_topic(worker: WorkerConfig, config: RawConfig) -> str:
    """Return the topic of a source's ledger; empty if it has none. Its config's references are looked up.

    A source inherits the topic of the worker's file if it can have a ledger.
    """
    if worker.exactly_once is not ExactlyOnceSource.ENABLED:
        return ""
    own, topic = config.get(LEDGER_TOPIC), worker.ledger_topic.strip()
    if own is not None or not topic:
        return (own or "").strip()
    try:
        reason = why_no_ledger(class_of(config), topic, given_values(config), worker)
    except ConfigError:
        return ""  # the class is not installed here
    return "" if reason else topic


def why_no_ledger(connector: type[Connector], topic: str, given: Mapping[str, str], worker: WorkerConfig) -> str | None:
    """Return why a connector cannot have a ledger in this topic; None if it can."""
    if not issubclass(connector, SourceConnector):
        return "only sources have a ledger; remove it"
    if issubclass(connector, DataFrameConnector) or is_mirror(connector):
        return "DataFrame sources and mirrors have no ledger; remove it"
    if worker.exactly_once is not ExactlyOnceSource.ENABLED:
        return "an entry is part of a transaction: set exactly.once.source.support=enabled in the worker's file"
    try:
        client = chosen_client(producer_properties(worker, given))
        faults = client_faults(producer_properties(worker, {**given, _CLIENT: BATCH}))
    except SettingsError:
        return None  # shown with the key that has them
    if client == LIBRDKAFKA:
        return f"the ledger needs the batch client: remove {_CLIENT}={LIBRDKAFKA}"
    lacking = "; ".join(f"{name}: {reason}" for name, reason in faults.items())
    return f"the batch client, which the ledger needs, lacks {lacking}" if lacking else None
