"""The Kafka clients of a connector: what the worker's file and the connector's config say about each."""

from collections.abc import Mapping
from dataclasses import dataclass

from fencepost.config.connector import RuntimeChoice
from fencepost.config.credentials import combined
from fencepost.config.raw import RawConfig
from fencepost.config.worker import WorkerConfig
from fencepost.task.channel.client_recipe import ClientRecipe

_PRODUCER, _CONSUMER, _ADMIN = "producer.", "consumer.", "admin."
_OVERRIDE = "override."
_CLIENT = "client"
BOOTSTRAP = WorkerConfig.key_of("bootstrap_servers")


@dataclass(frozen=True)
class ClientRecipes:
    """Nothing is looked up here: the parts of recipes have the references of the connector's config."""

    config: WorkerConfig
    is_exactly_once: bool

    def task_producer(self, connector_config: RawConfig) -> ClientRecipe:
        """Return the producers of a connector's tasks: transactional if this worker has exactly-once on."""
        return self._producer("transactional" if self.is_exactly_once else "producer", connector_config)

    def plain_producer(self, connector_config: RawConfig) -> ClientRecipe:
        """Return a producer without transactions."""
        return self._producer("producer", connector_config)

    def fencing(self, connector_config: RawConfig) -> ClientRecipe:
        """Return the producers that fence the tasks' ids, which do not depend on the chosen client."""
        own = producer_overrides(connector_config)
        own.pop(_CLIENT, None)
        worker = {key: value for key, value in self._worker(_PRODUCER).items() if key != _CLIENT}
        return ClientRecipe("transactional", worker, own)

    def task_admin(self, connector_config: RawConfig) -> ClientRecipe:
        """Return the admin client for the cluster that the connector's producers write to."""
        own = {**_servers(connector_config), **overrides(connector_config, _ADMIN)}
        return ClientRecipe("admin", self._with_target(_ADMIN), own)

    def task_reader(self, connector_config: RawConfig) -> ClientRecipe:
        """Return the reader of the connector's own offsets topic, which is in that cluster, too."""
        own = {**_servers(connector_config), **overrides(connector_config, _CONSUMER)}
        return ClientRecipe("reader", self._with_target(_CONSUMER), own)

    def sink(self, connector_config: RawConfig, group: str, client_id: str) -> ClientRecipe:
        """Return the consumer of a sink's task; `group` and `client_id` unless the config has others."""
        own = overrides(connector_config, _CONSUMER)
        return ClientRecipe("sink", self._worker(_CONSUMER), own, (group, client_id))

    def range(self, connector_config: RawConfig, group: str) -> ClientRecipe:
        """Return the consumer with which executors read the ranges of a sink's epochs."""
        own = overrides(connector_config, _CONSUMER)
        return ClientRecipe("range", self._worker(_CONSUMER), own, (group,))

    def dead_letter_reader(self, connector_config: RawConfig, group: str) -> ClientRecipe:
        """Return the consumer that reads a connector's dead letters, where its producers write; only committed ones."""
        given = overrides(connector_config, _CONSUMER)
        own = {key: value for key, value in given.items() if key not in (BOOTSTRAP, "group.id")}
        committed = {"isolation.level": "read_committed"}
        worker = {**self._with_target(_CONSUMER), **committed}
        return ClientRecipe("range", worker, {**own, **_servers(connector_config), **committed}, (group,))

    def sink_admin(self, connector_config: RawConfig) -> ClientRecipe:
        """Return the admin client for the cluster that a sink reads, with the admin's settings.

        `admin.override.bootstrap.servers` is not used: it may name the cluster of the dead letters.
        """
        reads = {BOOTSTRAP: self._worker(_CONSUMER)[BOOTSTRAP]}
        own = {key: value for key, value in overrides(connector_config, _ADMIN).items() if key != BOOTSTRAP}
        read = {key: value for key, value in overrides(connector_config, _CONSUMER).items() if key == BOOTSTRAP}
        return ClientRecipe("admin", {**self._worker(_ADMIN), **reads}, {**own, **read})

    def target(self, connector_config: RawConfig) -> dict[str, str]:
        """Return the bootstrap setting of the cluster that a connector's producers write to."""
        return {BOOTSTRAP: str({**self._worker(_PRODUCER), **producer_overrides(connector_config)}[BOOTSTRAP])}

    def _with_target(self, prefix: str) -> dict[str, object]:
        """Return a kind of client's properties for the brokers that the worker's file gives to producers."""
        return {**self._worker(prefix), BOOTSTRAP: self._worker(_PRODUCER)[BOOTSTRAP]}

    def _producer(self, kind: str, connector_config: RawConfig) -> ClientRecipe:
        return ClientRecipe(kind, self._worker(_PRODUCER), producer_overrides(connector_config))

    def _worker(self, prefix: str) -> dict[str, object]:
        return shared_properties(self.config, prefix)


def shared_properties(config: WorkerConfig, prefix: str) -> dict[str, object]:
    """Return Java's properties that all connectors' clients of a kind get from the worker's file."""
    return {**config.internal_client_properties, **config.client_properties(prefix)}


def overrides(connector_config: RawConfig, prefix: str) -> dict[str, str]:
    """Return a connector's own settings of a kind of client, without their prefix."""
    prefix = f"{prefix}{_OVERRIDE}"
    return {k[len(prefix) :]: v for k, v in connector_config.items() if v is not None and k.startswith(prefix)}


def producer_overrides(connector_config: RawConfig) -> dict[str, str]:
    """Return those of its producers, with its choice of client."""
    own = connector_config.get(RuntimeChoice.key_of("producer_client"))
    return {**overrides(connector_config, _PRODUCER), **({} if own is None else {_CLIENT: own})}


def _servers(connector_config: RawConfig) -> dict[str, str]:
    """Return the bootstrap setting of a connector's producers; empty if it has none of its own."""
    return {key: value for key, value in overrides(connector_config, _PRODUCER).items() if key == BOOTSTRAP}


def producer_properties(config: WorkerConfig, connector_config: Mapping[str, str | None]) -> dict[str, object]:
    """Return Java's properties of a connector's producers, of a config whose references are looked up."""
    return combined(shared_properties(config, _PRODUCER), producer_overrides(connector_config))
