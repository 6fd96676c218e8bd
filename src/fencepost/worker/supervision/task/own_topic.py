"""A connector's own topics: that of its offsets (KIP-618), and that of its ledger."""

from fencepost.config.raw import RawConfig
from fencepost.kafka.admin.client import Admin
from fencepost.storage.internal_topics import ensure_own_offsets_topic
from fencepost.storage.ledger_topic import ensure_ledger_topic
from fencepost.worker.settings import WorkerSettings


def ensure_own_topic(settings: WorkerSettings, config: RawConfig, ledger: str) -> None:
    """Create the connector's own topics, if it has any, as its principal (KIP-618); refuse ones that lose data.

    `ledger` is the topic of its ledger (`ledger_topic`); empty if it has none.
    Raises ConfigError, KafkaAuthorizationError, or KafkaUnavailableError, which can be retried.
    """
    has_offsets = settings.has_own_offsets(config)
    if not has_offsets and not ledger:
        return
    admin = Admin(settings.task_admin_conf(config), timeout_s=15.0)
    if has_offsets:
        ensure_own_offsets_topic(admin, settings.offsets_topic(config), settings.config)
    if ledger:
        ensure_ledger_topic(admin, ledger, settings.config.offset_storage_replication_factor)
