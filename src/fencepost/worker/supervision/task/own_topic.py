"""A connector's own offsets topic (KIP-618)."""

from fencepost.config.raw import RawConfig
from fencepost.kafka.admin.client import Admin
from fencepost.storage.internal_topics import ensure_own_offsets_topic
from fencepost.worker.settings import WorkerSettings


def ensure_own_topic(settings: WorkerSettings, config: RawConfig) -> None:
    """Create the connector's own offsets topic, if it has one, as its principal (KIP-618); refuse one that loses data.

    Raises ConfigError, KafkaAuthorizationError, or KafkaUnavailableError, which can be retried.
    """
    if settings.has_own_offsets(config):
        admin = Admin(settings.task_admin_conf(config), timeout_s=15.0)
        ensure_own_offsets_topic(admin, settings.offsets_topic(config), settings.config)
