"""Creates the topic of a connector's ledger, and refuses one that would forget entries."""

import logging

from fencepost.config import ConfigError
from fencepost.config.connector import RuntimeChoice
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaAuthorizationError, KafkaRequestError

log = logging.getLogger(__name__)
_CLEANUP_POLICY, _DELETE = "cleanup.policy", "delete"
_KEY = RuntimeChoice.key_of("ledger_topic")


def ensure_ledger_topic(admin: Admin, name: str, replication: int) -> None:
    """Create a ledger's topic with one partition, or check that it is not compacted.

    Its entries are deleted after the broker's time for that. Raises ConfigError, KafkaAuthorizationError, or
    KafkaUnavailableError, which can be retried.
    """
    try:
        is_new = admin.topics.ensure(name, partitions=1, replication=replication, configs={_CLEANUP_POLICY: _DELETE})
    except KafkaRequestError as error:
        raise ConfigError(
            f"Topic '{name}' of {_KEY} could not be created with {replication} replicas: {error}. Create it yourself "
            f"with '{_CLEANUP_POLICY}={_DELETE}'."
        ) from error
    if is_new:
        log.info("Created topic %s for a ledger", name)
    else:
        _check(admin, name)


def _check(admin: Admin, name: str) -> None:
    try:
        found = admin.configs.get(name).get(_CLEANUP_POLICY)
    except KafkaAuthorizationError as error:
        log.warning("Could not check that topic %s is not compacted: %s", name, error)
        return
    if found is not None and "compact" in found:
        raise ConfigError(
            f"Topic '{name}' of {_KEY} has '{_CLEANUP_POLICY}={found}', which would keep only the last entry of a "
            f"connector: set {_KEY} to another topic, or the topic's policy to '{_DELETE}'."
        )
