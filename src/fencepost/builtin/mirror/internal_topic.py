"""Internal topics of mirroring: one partition, compacted, created if missing."""

from fencepost.api import ConfigError
from fencepost.kafka.admin.topics import Topics
from fencepost.kafka.errors import KafkaAuthorizationError, TooFewBrokersError

_CONFIGS = {"cleanup.policy": "compact"}


def ensure_internal_topic(topics: Topics, topic: str, *, replication: int, key: str) -> None:
    """Create the topic unless it exists; `key` is the setting that `replication` comes from.

    Raises:
        ConfigError: The cluster has too few brokers for so many replicas.
        KafkaAuthorizationError: The principal may not create it.
        KafkaUnavailableError: The cluster does not answer.
        KafkaRequestError: The cluster refuses the topic for another reason.
    """
    try:
        topics.ensure(topic, partitions=1, replication=replication, configs=_CONFIGS)
    except TooFewBrokersError as error:
        raise ConfigError(
            f"Invalid value {replication} for configuration {key}: the cluster has too few brokers for that many "
            f"replicas of topic {topic}; set a lower number, or -1 for the cluster's default. {error}"
        ) from error
    except KafkaAuthorizationError as error:
        raise KafkaAuthorizationError(
            f"{error} Topic {topic} does not exist: create it with one partition and cleanup.policy=compact, or allow "
            "the principal to create it."
        ) from error
