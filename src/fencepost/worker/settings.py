"""The client settings of everything on a worker, derived once from its file."""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fencepost.api import OffsetsInGroup
from fencepost.config.connector import PLUGIN_VERSION, RuntimeChoice
from fencepost.config.raw import RawConfig
from fencepost.config.worker import ExactlyOnceSource, WorkerConfig
from fencepost.kafka.admin.cluster_ids import ClusterIds
from fencepost.kafka.setting.client_settings import (
    admin_conf,
    member_conf,
    producer_conf,
    reader_conf,
    sink_conf,
    transactional_conf,
)
from fencepost.kafka.setting.translation import Translated
from fencepost.storage.offset_view import OffsetTopic
from fencepost.worker.connector_classes import ConnectorClasses

log = logging.getLogger(__name__)

_OVERRIDE = "producer.override."
_CLIENT = "client"
_CONSUMER_OVERRIDE = "consumer.override."
_HEARTBEAT_MS = 1000
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
        return _without_id(self.config.internal_client_properties)

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
        properties = self.producer_properties(connector_config)
        return _without_id(properties) if self.is_exactly_once else logged(producer_conf(properties))

    def fencing_conf(self, connector_config: RawConfig) -> dict[str, Any]:
        """Return the settings for fencing the tasks' transactional ids, even on a worker without exactly-once."""
        properties = self.producer_properties(connector_config)
        return _without_id({key: value for key, value in properties.items() if key != _CLIENT})

    def producer_properties(self, connector_config: RawConfig) -> dict[str, object]:
        """Return Java's properties of a connector's producers."""
        return producer_properties(self.config, connector_config)

    def _target(self, connector_config: RawConfig) -> dict[str, str]:
        """Return the bootstrap setting of the cluster that a connector's producers write to."""
        return {_BOOTSTRAP: str(self.producer_properties(connector_config)[_BOOTSTRAP])}

    def task_admin_conf(self, connector_config: RawConfig) -> dict[str, Any]:
        """Return the settings for creating a connector's topics, as its own principal, where its producers write."""
        return self._admin_conf(connector_config, self._target(connector_config))

    def _admin_conf(self, connector_config: RawConfig, target: Mapping[str, str]) -> dict[str, Any]:
        properties = {**self.config.internal_client_properties, **self.config.client_properties("admin.")}
        own = _overrides(connector_config, "admin.override.")
        return logged(admin_conf({**properties, **target, **own}))

    def effective_config(self, connector_config: RawConfig) -> dict[str, str | None]:
        """Return the connector's config, completed with its class's or the worker's converters."""
        return with_converters(connector_config, self.config)

    def task_reader_conf(self, connector_config: RawConfig) -> dict[str, Any]:
        """Return the settings for reading a connector's own offsets topic, as its own principal."""
        properties = {**self.config.internal_client_properties, **self.config.client_properties("consumer.")}
        own = _overrides(connector_config, "consumer.override.")
        return logged(reader_conf({**properties, **self._target(connector_config), **own}))

    def offsets_in_group(self, connector: str, connector_config: RawConfig) -> OffsetsInGroup | None:
        """Return how a group of the target cluster keeps a source's offsets; None if a topic keeps them."""
        return ConnectorClasses().offsets_in_group(connector, connector_config)

    def may_have_own_offsets(self, connector_config: RawConfig) -> bool:
        """Say, without a request, whether the config names another offsets topic, or other brokers."""
        target = self._target(connector_config)[_BOOTSTRAP].split(",")
        is_elsewhere = {server.strip() for server in target} != set(self.config.bootstrap_servers)
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
        target = admin_conf(self._target(connector_config)).conf
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
        return {
            **self.config.internal_client_properties,
            **self.config.client_properties("consumer."),
            **_overrides(connector_config, _CONSUMER_OVERRIDE),
        }

    def sink_group(self, connector: str, connector_config: RawConfig) -> str:
        """Return the consumer group of a sink."""
        return _overrides(connector_config, _CONSUMER_OVERRIDE).get("group.id", "").strip() or own_group(connector)

    def task_consumer_conf(self, connector: str, connector_config: RawConfig, task: int) -> dict[str, Any]:
        """Return the consumer settings of a sink's task, as a member of its group."""
        properties, group = self.consumer_properties(connector_config), self.sink_group(connector, connector_config)
        return logged(sink_conf(properties, group, sink_client_id(connector, task)))

    def dead_letters_conf(self, connector_config: RawConfig) -> dict[str, Any]:
        """Return the producer settings for a sink's dead letters."""
        return logged(producer_conf(self.producer_properties(connector_config)))

    def sink_admin_conf(self, connector_config: RawConfig) -> dict[str, Any]:
        """Return the settings for requests about a sink's group, as the connector's own principal, where it reads.

        `admin.override.bootstrap.servers` is not used: it may name the cluster of the dead letters.
        """
        servers = str(self.consumer_properties(connector_config)[_BOOTSTRAP])
        return {**self._admin_conf(connector_config, {}), **admin_conf({_BOOTSTRAP: servers}).conf}


def producer_properties(config: WorkerConfig, connector_config: RawConfig) -> dict[str, object]:
    """Return Java's properties of a connector's producers: the worker's, then its own, and its choice of client."""
    own = connector_config.get(RuntimeChoice.key_of("producer_client"))
    return {
        **config.internal_client_properties,
        **config.client_properties("producer."),
        **_overrides(connector_config, _OVERRIDE),
        **({} if own is None else {_CLIENT: own}),
    }


def _without_id(properties: Mapping[str, object]) -> dict[str, Any]:
    """Return the settings of a transactional producer without its id."""
    conf = logged(transactional_conf(properties, ""))
    del conf["transactional.id"]
    return conf


def own_group(connector: str) -> str:
    """Return the consumer group of a sink whose config names none."""
    return f"connect-{connector}"


def sink_client_id(connector: str, task: int) -> str:
    """Return the client id of a task's group member, as in Kafka Connect; the user may override it."""
    return f"connector-consumer-{connector}-{task}"


def with_converters(connector_config: RawConfig, config: WorkerConfig) -> dict[str, str | None]:
    """Return a connector's config, completed with its class's converters, or else the worker's."""
    effective = dict(connector_config)
    of_class = ConnectorClasses().converters(connector_config)
    for key in ("key.converter", "value.converter", "header.converter"):
        if effective.get(key) is None and key in of_class:
            effective[key] = of_class[key]
        elif effective.get(key) is None:
            settings = type(config).settings()
            effective[key] = str(config.originals.get(key) or settings[key].default)
            inherited = config.with_prefix(f"{key}.")
            if effective.get(f"{key}.{PLUGIN_VERSION}") is not None:
                inherited.pop(PLUGIN_VERSION, None)
            effective.update({f"{key}.{k}": str(v) for k, v in inherited.items()})
    return effective


def worker_id(url: str) -> str:
    """Return `host:port` of an advertised address: the worker's name in statuses, and its member's in the group."""
    return url.split("//", 1)[-1].rstrip("/")


def _overrides(connector_config: RawConfig, prefix: str) -> dict[str, str]:
    return {k[len(prefix) :]: v for k, v in connector_config.items() if v is not None and k.startswith(prefix)}


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
