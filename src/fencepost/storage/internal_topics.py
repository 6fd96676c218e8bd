"""Creates the three internal topics and others that must be compacted, and refuses unsuitable existing ones."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from fencepost.config import ConfigError
from fencepost.config.cluster import InternalTopicConfig
from fencepost.config.connector import RuntimeChoice
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaAuthorizationError, KafkaRequestError, TooFewBrokersError

LOG = logging.getLogger(__name__)
_CLEANUP_POLICY, _COMPACT, _DELETE = "cleanup.policy", "compact", "delete"
_LEDGER_KEY = RuntimeChoice.key_of("ledger_topic")
_SEGMENT_BYTES = "segment.bytes"
READ_S = 60.0
"""How long it may take to read an internal topic to its end, or the offsets of a group."""
_SMALL_SEGMENT = 16_777_216
"""Kafka compacts no segment that is still written, and a worker reads all of it when it starts: 1 GB by default."""


class ReplicationError(ConfigError):
    """A topic needs more replicas than there are brokers. Brokers may still be starting: retry for a while."""


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic and its settings.

    `key` and `replication_key` are the worker settings that a user would change; `purpose` names its content.
    """

    name: str
    key: str
    replication_key: str
    purpose: str
    partitions: int
    replication: int
    configs: dict[str, str] = field(default_factory=dict)
    is_single: bool = False
    place: str = "in the Connect worker configurations"
    outcome: str = "problems restarting this Connect cluster in the future"


def internal_topics(config: InternalTopicConfig) -> tuple[InternalTopic, InternalTopic, InternalTopic]:
    """Return the config, offsets and status topics that `config` describes."""
    key = type(config).key_of
    return (
        InternalTopic(
            config.config_storage_topic,
            key("config_storage_topic"),
            key("config_storage_replication_factor"),
            "connector configurations",
            1,
            config.config_storage_replication_factor,
            _extra(config, "config"),
            is_single=True,
        ),
        InternalTopic(
            config.offset_storage_topic,
            key("offset_storage_topic"),
            key("offset_storage_replication_factor"),
            "source connector offsets",
            config.offset_storage_partitions,
            config.offset_storage_replication_factor,
            _extra(config, "offset"),
        ),
        InternalTopic(
            config.status_storage_topic,
            key("status_storage_topic"),
            key("status_storage_replication_factor"),
            "connector and task statuses",
            config.status_storage_partitions,
            config.status_storage_replication_factor,
            _extra(config, "status"),
        ),
    )


def ensure_internal_topics(admin: Admin, config: InternalTopicConfig) -> None:
    """Create missing topics and check existing ones.

    Raises ConfigError, naming the worker setting, for a topic that would lose data. Retry after KafkaUnavailableError
    and, for a while, after ReplicationError.
    """
    for topic in internal_topics(config):
        if _create(admin, topic):
            LOG.info("Created topic %s for %s", topic.name, topic.purpose)
        else:
            _check_partitions(admin, topic)
            _remark_on_segments(topic, _check_policy(admin, topic))


def check_config_topic(admin: Admin, config: InternalTopicConfig) -> None:
    """Raise ConfigError if the config topic now has more than one partition, or the error if it cannot be checked."""
    _check_partitions(admin, internal_topics(config)[0])


def ensure_own_offsets_topic(admin: Admin, name: str, config: InternalTopicConfig) -> None:
    """Create a connector's own offsets topic, with the partitions and replication of the worker's, or check it.

    See KIP-605 and KIP-618. Raises the errors of `ensure_internal_topics`; they name the connector's setting.
    """
    topic = InternalTopic(
        name,
        "offsets.storage.topic",
        type(config).key_of("offset_storage_replication_factor"),
        "source connector offsets",
        config.offset_storage_partitions,
        config.offset_storage_replication_factor,
        _extra(config, "offset"),
        place="of the connector",
    )
    ensure_compacted(admin, topic)


def ensure_compacted(admin: Admin, topic: InternalTopic) -> None:
    """Create a topic, or check that it is compacted. Raises the errors of `ensure_internal_topics`."""
    if _create(admin, topic):
        LOG.info("Created topic %s for %s", topic.name, topic.purpose)
    else:
        _check_policy(admin, topic)


def _create(admin: Admin, topic: InternalTopic) -> bool:
    configs = {**topic.configs, _CLEANUP_POLICY: _COMPACT}
    try:
        return admin.topics.ensure(
            topic.name, partitions=topic.partitions, replication=topic.replication, configs=configs
        )
    except KafkaRequestError as error:
        kind = ReplicationError if isinstance(error, TooFewBrokersError) else ConfigError
        raise kind(
            f"Topic '{topic.name}' supplied via the '{topic.key}' property could not be created with "
            f"{topic.partitions} partitions and '{topic.replication_key}={topic.replication}': {error}. Change these "
            "settings, or create the topic yourself with 'cleanup.policy=compact'."
        ) from error


def _check_partitions(admin: Admin, topic: InternalTopic) -> None:
    partitions = admin.topics.partitions(topic.name)
    if topic.is_single and partitions not in (None, 1):
        raise ConfigError(
            f"Topic '{topic.name}' supplied via the '{topic.key}' property is required to have a single partition in "
            f"order to guarantee consistency of {topic.purpose}, but found {partitions} partitions. Change the "
            f"'{topic.key}' property to a topic with one partition, or to one that does not exist yet."
        )


def _check_policy(admin: Admin, topic: InternalTopic) -> Mapping[str, str | None]:
    """Raise ConfigError unless the topic is compacted. Returns its configs; nothing if they may not be read."""
    try:
        configs = admin.configs.get(topic.name)
    except KafkaAuthorizationError as error:
        LOG.warning("Could not check that topic %s is compacted: %s", topic.name, error)
        return {}
    found = configs.get(_CLEANUP_POLICY)
    if found is not None and {policy.strip() for policy in found.split(",")} != {_COMPACT}:
        raise ConfigError(
            f"Topic '{topic.name}' supplied via the '{topic.key}' property is required to have "
            f"'{_CLEANUP_POLICY}={_COMPACT}' to guarantee consistency and durability of {topic.purpose}, but found the "
            f"topic currently has '{_CLEANUP_POLICY}={found}'. Continuing would likely result in eventually losing "
            f"{topic.purpose} and {topic.outcome}. Change the '{topic.key}' "
            f"property {topic.place} to use a topic with '{_CLEANUP_POLICY}={_COMPACT}'."
        )
    return configs


def _remark_on_segments(topic: InternalTopic, configs: Mapping[str, str | None]) -> None:
    """Log how much of an existing topic a worker may have to read. The topic is left as it is."""
    found = int(configs.get(_SEGMENT_BYTES) or 0)
    if found > _SMALL_SEGMENT and topic.configs.get(_SEGMENT_BYTES) != str(found):
        LOG.info(
            "Topic %s has %s=%d: a worker that starts may read as much of each partition. To bound that, set it to %d",
            topic.name,
            _SEGMENT_BYTES,
            found,
            _SMALL_SEGMENT,
        )


def _extra(config: InternalTopicConfig, which: str) -> dict[str, str]:
    """Return the topic's configs: all settings with its prefix except the worker's own, and small segments."""
    own = {"topic", "partitions", "replication.factor", _CLEANUP_POLICY}
    found = config.with_prefix(f"{which}.storage.")
    return {_SEGMENT_BYTES: str(_SMALL_SEGMENT), **{k: str(value) for k, value in found.items() if k not in own}}


def ensure_ledger_topic(admin: Admin, name: str, replication: int) -> None:
    """Create a ledger's topic with one partition, or check that it is not compacted.

    Its entries are deleted after the broker's time for that. Raises ConfigError, KafkaAuthorizationError, or
    KafkaUnavailableError, which can be retried.
    """
    try:
        is_new = admin.topics.ensure(name, partitions=1, replication=replication, configs={_CLEANUP_POLICY: _DELETE})
    except KafkaRequestError as error:
        raise ConfigError(
            f"Topic '{name}' of {_LEDGER_KEY} could not be created with {replication} replicas: {error}. Create it "
            f"yourself with '{_CLEANUP_POLICY}={_DELETE}'."
        ) from error
    if is_new:
        LOG.info("Created topic %s for a ledger", name)
    else:
        _check_ledger(admin, name)


def _check_ledger(admin: Admin, name: str) -> None:
    try:
        found = admin.configs.get(name).get(_CLEANUP_POLICY)
    except KafkaAuthorizationError as error:
        LOG.warning("Could not check that topic %s is not compacted: %s", name, error)
        return
    if found is not None and "compact" in found:
        raise ConfigError(
            f"Topic '{name}' of {_LEDGER_KEY} has '{_CLEANUP_POLICY}={found}', which would keep only the last entry of "
            f"a connector: set {_LEDGER_KEY} to another topic, or the topic's policy to '{_DELETE}'."
        )
