"""The client settings of everything on a worker, derived once from its file."""

import logging
import re
from dataclasses import dataclass, field
from typing import Any

from fencepost.api import RetriableError
from fencepost.config.connector import PLUGIN_VERSION
from fencepost.config.credentials import combined
from fencepost.config.output import OUTPUT
from fencepost.config.raw import RawConfig, names_in
from fencepost.config.reference import has_references
from fencepost.config.worker import ExactlyOnceSource, WorkerConfig
from fencepost.hook.mirror import OffsetsInGroup
from fencepost.kafka.admin.cluster_ids import ClusterIds
from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.kafka.setting.client_settings import (
    admin_conf,
    member_conf,
    producer_conf,
    reader_conf,
)
from fencepost.kafka.setting.translation import Translated
from fencepost.reference import LookedUp, providers_of
from fencepost.storage.offset_view import OffsetTopic
from fencepost.task.channel.client_recipe import ClientRecipe, without_id
from fencepost.worker.client_recipes import ClientRecipes, overrides, producer_properties, shared_properties
from fencepost.worker.connector_classes import ConnectorClasses

log = logging.getLogger(__name__)

_CONSUMER = "consumer."
_HEARTBEAT_MS = 1000
NO_EFFECT = "it has no effect, because the worker's file names and sets this converter: name the converter as well"
RECENT_S = 10.0
"""How old a value may be that was looked up for the same start or request."""

_BOOTSTRAP = WorkerConfig.key_of("bootstrap_servers")


@dataclass(frozen=True)
class WorkerSettings:
    """The settings of the worker's file, as its parts need them. `url` is the advertised address of REST."""

    config: WorkerConfig
    url: str
    incarnation: str
    cluster_ids: ClusterIds = field(default_factory=ClusterIds, compare=False, repr=False)

    @property
    def group_id(self) -> str:
        return self.config.group_id

    @property
    def is_exactly_once(self) -> bool:
        """Say whether sources on this worker run exactly-once."""
        return self.config.exactly_once is ExactlyOnceSource.ENABLED

    @property
    def worker_id(self) -> str:
        """Return `host:port`, this worker's name in statuses."""
        return worker_id(self.url)

    def reader_conf(self) -> dict[str, Any]:
        return logged(reader_conf(self.config.internal_client_properties))

    def admin_conf(self) -> dict[str, Any]:
        return logged(admin_conf(self.config.internal_client_properties))

    def producer_conf(self) -> dict[str, Any]:
        return logged(producer_conf(self.config.internal_client_properties))

    def leader_conf(self) -> dict[str, Any]:
        return logged(without_id(self.config.internal_client_properties))

    def member_conf(self) -> dict[str, Any]:
        conf = logged(member_conf(self.config.internal_client_properties, self.group_id))
        return {
            **conf,
            "session.timeout.ms": self.config.session_timeout_ms,
            # A member learns of a rebalance at its next heartbeat, and until then a lost leader has no successor.
            "heartbeat.interval.ms": min(self.config.heartbeat_interval_ms, _HEARTBEAT_MS),
            "group.instance.id": self.worker_id,
            "client.id": self.url,
            "auto.offset.reset": "latest",
        }

    def task_producer_conf(self, connector_config: RawConfig) -> dict[str, Any]:
        """Return the settings of a connector's producers: the worker's `producer.`, then its own overrides."""
        return self._made(self._recipes.task_producer(connector_config))

    def fencing_conf(self, connector_config: RawConfig) -> dict[str, Any]:
        """Return the settings for fencing the tasks' transactional ids, even on a worker without exactly-once."""
        return self._made(self._recipes.fencing(connector_config))

    def producer_properties(self, connector_config: RawConfig) -> dict[str, object]:
        """Return Java's properties of a connector's producers."""
        return producer_properties(self.config, self._known(connector_config))

    @property
    def _recipes(self) -> ClientRecipes:
        """Return what the clients of connectors are made of."""
        return ClientRecipes(self.config, self.is_exactly_once)

    def _made(self, recipe: ClientRecipe) -> dict[str, Any]:
        return logged(recipe.translated(self._known))

    def _known(self, config: RawConfig) -> RawConfig:
        return known(self.config, config)

    def task_admin_conf(self, connector_config: RawConfig) -> dict[str, Any]:
        """Return the settings for creating a connector's topics, as its own principal, where its producers write."""
        return self._made(self._recipes.task_admin(connector_config))

    def effective_config(self, connector_config: RawConfig) -> dict[str, str | None]:
        """Return the connector's config, completed with its class's or the worker's converters."""
        effective = with_converters(connector_config, self.config)
        for key in connector_config.keys() - effective.keys():
            log.warning("%s: %s", key, NO_EFFECT)
        return effective

    def task_reader_conf(self, connector_config: RawConfig) -> dict[str, Any]:
        """Return the settings for reading a connector's own offsets topic, as its own principal."""
        return self._made(self._recipes.task_reader(connector_config))

    def offsets_in_group(self, connector: str, connector_config: RawConfig) -> OffsetsInGroup | None:
        """Return how a group of the target cluster keeps a source's offsets; None if a topic keeps them."""
        return ConnectorClasses().offsets_in_group(connector, connector_config, self._known)

    def may_have_own_offsets(self, connector_config: RawConfig) -> bool:
        """Say, without a request, whether the config names another offsets topic, or other brokers."""
        target = names_in(self._recipes.target(connector_config)[_BOOTSTRAP])
        is_elsewhere = {*target} != {*self.config.bootstrap_servers}
        return is_elsewhere or not self._names_workers_topic(connector_config)

    def has_own_offsets(self, connector_config: RawConfig) -> bool:
        """Say whether the connector's offsets are outside the worker's topic: in another topic, or another cluster.

        If the brokers are spelled differently, both clusters are asked for their ids. Without that, copies could go to
        the topic of the transactions themselves, and be taken for the last committed offsets.

        Raises KafkaUnavailableError or KafkaAuthorizationError if the connector's cluster does not answer.
        """
        if not self._names_workers_topic(connector_config):
            return True
        if not self.may_have_own_offsets(connector_config):
            return False
        target = admin_conf(self._recipes.target(connector_config)).conf
        ids = self.cluster_ids
        return ids.of({**self.task_admin_conf(connector_config), **target}) != ids.of(self.admin_conf())

    def _names_workers_topic(self, connector_config: RawConfig) -> bool:
        return self.offsets_topic(connector_config) == self.config.offset_storage_topic

    def own_offsets(self, connector_config: RawConfig) -> OffsetTopic | None:
        """Return the connector's own offsets topic, with the settings to read it as its principal; None if it has none.

        The config names it, or another target cluster implies it, whether or not exactly-once is on (KIP-618). Raises
        what `has_own_offsets` raises.
        """
        if not self.has_own_offsets(connector_config):
            return None
        return OffsetTopic(self.offsets_topic(connector_config), self.task_reader_conf(connector_config))

    def offsets_topic(self, connector_config: RawConfig) -> str:
        """Return the topic that the connector's offsets are written to."""
        return connector_config.get("offsets.storage.topic") or self.config.offset_storage_topic

    def consumer_properties(self, connector_config: RawConfig) -> dict[str, object]:
        """Return Java's properties of a sink's consumers."""
        return combined(shared_properties(self.config, _CONSUMER), overrides(self._known(connector_config), _CONSUMER))

    def sink_group(self, connector: str, connector_config: RawConfig) -> str:
        """Return the consumer group of a sink."""
        own = overrides(connector_config, _CONSUMER)
        return (self._known(own).get("group.id") or "").strip() or own_group(connector)

    def task_consumer_conf(self, connector: str, connector_config: RawConfig, task: int) -> dict[str, Any]:
        """Return the consumer settings of a sink's task, as a member of its group."""
        names = own_group(connector), sink_client_id(connector, task)
        return self._made(self._recipes.sink(connector_config, *names))

    def dead_letters_conf(self, connector_config: RawConfig) -> dict[str, Any]:
        """Return the producer settings for a sink's dead letters."""
        return self._made(self._recipes.plain_producer(connector_config))

    def sink_admin_conf(self, connector_config: RawConfig) -> dict[str, Any]:
        """Return the settings for requests about a sink's group, as the connector's own principal, where it reads."""
        return self._made(self._recipes.sink_admin(connector_config))


def looked_up(worker: WorkerConfig, config: RawConfig, max_age_s: float = 0.0) -> LookedUp:
    """Look up the references of a connector's or a task's config with the providers of the worker's file."""
    if not has_references(config):
        return LookedUp(config, {}, {})
    return providers_of(worker.originals).look_up(config, max_age_s)


def known(worker: WorkerConfig, config: RawConfig) -> RawConfig:
    """Return a config with its references replaced by values that were looked up not long ago.

    Raises ConfigError; KafkaUnavailableError if a store is away, as the connector's cluster cannot be asked then.
    """
    try:
        return looked_up(worker, config, RECENT_S).require()
    except RetriableError as error:
        raise KafkaUnavailableError(str(error)) from error


def own_group(connector: str) -> str:
    """Return the consumer group of a sink whose config names none."""
    return f"connect-{connector}"


def sink_client_id(connector: str, task: int) -> str:
    """Return the client id of a task's group member, as in Kafka Connect; the user may override it."""
    return f"connector-consumer-{connector}-{task}"


def with_converters(connector_config: RawConfig, config: WorkerConfig) -> dict[str, str | None]:
    """Return a connector's config, completed with its class's converters, or else the worker's.

    A converter of the worker's file has the settings of that file only, as in Kafka Connect: else its password would go
    where the connector says. If the file has none, the connector's are kept, as they always were.
    """
    effective = dict(connector_config)
    of_class = ConnectorClasses().converters(connector_config)
    for key in ("key.converter", "value.converter", "header.converter"):
        if effective.get(key) is None and key in of_class:
            effective[key] = of_class[key]
        elif effective.get(key) is None:
            settings = type(config).settings()
            effective[key] = str(config.originals.get(key) or settings[key].default)
            inherited = config.with_prefix(f"{key}.")
            if inherited.keys() - {PLUGIN_VERSION}:
                for own in _settings_without_class(connector_config, key):
                    del effective[own]
            if effective.get(f"{key}.{PLUGIN_VERSION}") is not None:
                inherited.pop(PLUGIN_VERSION, None)
            effective.update({f"{key}.{k}": str(v) for k, v in inherited.items()})
    return effective


def _settings_without_class(config: RawConfig, converter: str) -> list[str]:
    """Return a connector's settings of a converter that it does not name, also of its output's."""
    unnamed = [f"{each}." for each in (converter, f"{OUTPUT}{converter}") if config.get(each) is None]
    return [key for key in config if key.startswith(tuple(unnamed)) and not key.endswith(f".{PLUGIN_VERSION}")]


def worker_id(url: str) -> str:
    """Return `host:port` of an advertised address: the worker's name in statuses, and its member's in the group."""
    return url.split("//", 1)[-1].rstrip("/")


_named: set[str] = set()
_OF_A_CLIENT = re.compile(r"^Ignoring the \w+ setting ")


def logged(translated: Translated) -> dict[str, Any]:
    """Return the settings, after logging their warnings, each once."""
    for warning in translated.warnings:
        named = _OF_A_CLIENT.sub("", warning)  # the worker's settings go to clients of every kind: log each once
        if named not in _named:
            _named.add(named)
            log.warning("%s", warning)
    return dict(translated.conf)
