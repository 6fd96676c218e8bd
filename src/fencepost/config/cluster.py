"""The settings that the workers of a cluster share: the group, its three topics, the signing of requests, and topics
that empty themselves (KIP-762).

The workers' topics are closed: no connector reads them, writes to them or names them (docs/decisions/0109). They have
the configs, the session key, the offsets and the states of all connectors, or are Kafka's own. Whoever reads or writes
them is an administrator of the cluster, whatever connector he may edit.
"""

from dataclasses import dataclass

from fencepost.config.check import at_least, at_least_or_minus_one, between, each, non_empty, one_of, topic_name
from fencepost.config.java_regex import java_regex
from fencepost.config.setting import HIGH, LOW, MEDIUM, Config, Type, setting

OF_KAFKA = frozenset(
    {
        "__consumer_offsets",
        "__transaction_state",
        "__share_group_state",
        "__cluster_metadata",
        "__remote_log_metadata",
    }
)
"""Kafka's own topics. Others that begin with `__` are users' (Debezium's heartbeats, an `__audit`)."""
DECISIONS = "fencepost-writes"
"""The topic that says what Spark has written: who writes there decides what a query skips."""


@dataclass(frozen=True)
class ClosedTopics:
    """`names`: the workers' topics for configs, offsets and statuses; none for a cluster that is not the workers'."""

    names: tuple[str, ...] = ()

    def has(self, topic: str) -> bool:
        return topic in self.names or (bool(self.names) and topic in (*OF_KAFKA, DECISIONS))


ALL_OPEN = ClosedTopics()
CLOSED = "this topic is the workers' or Kafka's own, and connectors may not read or write it"
"""Why a topic is refused."""


def closed_fault(key: str, topic: str) -> str:
    """Return the fault of a setting that names a closed topic."""
    return f"Invalid value {topic} for configuration {key}: {CLOSED}; name another topic"


class RetentionConfig(Config):
    """Which records are deleted once all sinks have committed them."""

    delete_committed_enabled: bool = setting(
        "delete.committed.enabled",
        default=False,
        importance=MEDIUM,
        doc="Whether records are deleted from topics once every sink connector that reads them has committed them "
        "(KIP-762). What is deleted is gone, also for readers that commit nothing.",
    )
    delete_committed_topics: list[str] = setting(
        "delete.committed.topics",
        default=[],
        importance=MEDIUM,
        check=each(java_regex()),
        doc="Java regular expressions, separated by commas; a topic is emptied only if one matches its whole name.",
    )
    delete_committed_respect_groups: list[str] = setting(
        "delete.committed.respect.groups",
        default=[],
        importance=LOW,
        check=each(java_regex()),
        doc="Java regular expressions of consumer groups outside of this cluster that are waited for like sinks. Any "
        "other group that reads a topic keeps it from being emptied.",
    )
    delete_committed_keep_records: int = setting(
        "delete.committed.keep.records",
        default=0,
        type=Type.LONG,
        check=at_least(0),
        importance=LOW,
        doc="How many offsets of each partition are kept behind what was committed, for sinks that rewind.",
    )
    delete_committed_keep_ms: int = setting(
        "delete.committed.keep.ms",
        default=0,
        type=Type.LONG,
        check=at_least(0),
        importance=LOW,
        doc="How old, by its timestamp, a record is at least when it is deleted; 0: any age.",
    )


_PARTITIONS = at_least_or_minus_one(1, "Number of partitions must be positive, or -1 to use the broker's default")
_REPLICATION_FACTOR = at_least_or_minus_one(
    1,
    "Replication factor must be positive and not larger than the number of brokers in the Kafka cluster, "
    "or -1 to use the broker's default",
)
_MAX_INT = (1 << 31) - 1
_NEVER_AWAY = "a worker that lags behind the config topic stays in the group and reads on"


class GroupConfig(Config):
    """Membership of the group of workers."""

    group_id: str = setting(
        "group.id", check=non_empty(), importance=HIGH, doc="Workers with the same id form one cluster."
    )
    session_timeout_ms: int = setting(
        "session.timeout.ms",
        type=Type.INT,
        default=10_000,
        check=at_least(1),
        importance=HIGH,
        doc="A worker that is silent for so long is taken for dead.",
    )
    heartbeat_interval_ms: int = setting(
        "heartbeat.interval.ms",
        type=Type.INT,
        default=3_000,
        check=at_least(1),
        importance=HIGH,
        doc="How often a worker shows that it lives; at most a third of the session timeout.",
    )
    rebalance_timeout_ms: int = setting(
        "rebalance.timeout.ms",
        type=Type.INT,
        default=60_000,
        check=at_least(0),
        importance=HIGH,
        doc="How long a worker may take to join again once a rebalance has begun.",
        without_effect="the broker waits for members as long as its own group protocol says",
    )
    worker_sync_timeout_ms: int = setting(
        "worker.sync.timeout.ms",
        type=Type.INT,
        default=3_000,
        doc="How long a worker that lags behind the config topic tries to catch up.",
        without_effect=_NEVER_AWAY,
    )
    worker_unsync_backoff_ms: int = setting(
        "worker.unsync.backoff.ms",
        type=Type.INT,
        default=300_000,
        doc="How long a worker that could not catch up stays away.",
        without_effect=_NEVER_AWAY,
    )
    connect_protocol: str = setting(
        "connect.protocol",
        default="sessioned",
        check=one_of("eager", "compatible", "sessioned"),
        importance=LOW,
        doc="Requests between workers are always signed, whatever it says. Only where `sessioned` stands in the file "
        "are such accepted too that Kafka Connect signs, over their body alone.",
    )
    scheduled_rebalance_max_delay_ms: int = setting(
        "scheduled.rebalance.max.delay.ms",
        type=Type.INT,
        # Kafka Connect waits five minutes for a lost worker; here every start fences, so its tasks move at once.
        default=0,
        check=between(0, _MAX_INT),
        importance=LOW,
        doc="How long what a lost worker ran waits for it, and runs nowhere, before it moves. What a worker ran that "
        "leaves cleanly moves at once.",
    )


class InternalTopicConfig(Config):
    """The three internal topics. Other settings with their prefixes become topic configs."""

    @property
    def closed_topics(self) -> ClosedTopics:
        """Return the topics of the workers' cluster that connectors may not read or write."""
        return ClosedTopics((self.config_storage_topic, self.offset_storage_topic, self.status_storage_topic))

    config_storage_topic: str = setting(
        "config.storage.topic", check=topic_name(), importance=HIGH, doc="The topic that keeps configs; one partition."
    )
    config_storage_replication_factor: int = setting(
        "config.storage.replication.factor",
        default=3,
        check=_REPLICATION_FACTOR,
        importance=LOW,
        type=Type.SHORT,
        doc="Replicas of the config topic where we create it; -1: the broker's default.",
    )
    offset_storage_topic: str = setting(
        "offset.storage.topic", check=topic_name(), importance=HIGH, doc="The topic that keeps source offsets."
    )
    offset_storage_partitions: int = setting(
        "offset.storage.partitions",
        type=Type.INT,
        default=25,
        check=_PARTITIONS,
        importance=LOW,
        doc="Partitions of the offsets topic where we create it; -1: the broker's default.",
    )
    offset_storage_replication_factor: int = setting(
        "offset.storage.replication.factor",
        default=3,
        check=_REPLICATION_FACTOR,
        importance=LOW,
        type=Type.SHORT,
        doc="Replicas of the offsets topic where we create it; -1: the broker's default.",
    )
    status_storage_topic: str = setting(
        "status.storage.topic", check=topic_name(), importance=HIGH, doc="The topic that keeps states."
    )
    status_storage_partitions: int = setting(
        "status.storage.partitions",
        type=Type.INT,
        default=5,
        check=_PARTITIONS,
        importance=LOW,
        doc="Partitions of the status topic where we create it; -1: the broker's default.",
    )
    status_storage_replication_factor: int = setting(
        "status.storage.replication.factor",
        default=3,
        check=_REPLICATION_FACTOR,
        importance=LOW,
        type=Type.SHORT,
        doc="Replicas of the status topic where we create it; -1: the broker's default.",
    )


_ALGORITHMS = one_of("HmacSHA256", "HmacSHA384", "HmacSHA512", ignore_case=False)


class SigningConfig(Config):
    """How requests between workers are signed (KIP-507)."""

    key_generation_algorithm: str = setting(
        "inter.worker.key.generation.algorithm",
        default="HmacSHA256",
        check=_ALGORITHMS,
        importance=LOW,
        doc="What session keys are made for.",
    )
    key_size: int | None = setting(
        "inter.worker.key.size",
        type=Type.INT,
        default=None,
        check=at_least(128),
        importance=LOW,
        doc="Bits of a session key; unset: what suits the algorithm.",
        without_effect="a session key always has the length that suits its algorithm",
    )
    key_ttl_ms: int = setting(
        "inter.worker.key.ttl.ms",
        type=Type.INT,
        default=3_600_000,
        check=between(0, _MAX_INT),
        importance=LOW,
        doc="A session key is replaced after this time.",
    )
    signature_algorithm: str = setting(
        "inter.worker.signature.algorithm",
        default="HmacSHA256",
        check=_ALGORITHMS,
        importance=LOW,
        doc="What this worker signs with.",
    )
    verification_algorithms: list[str] = setting(
        "inter.worker.verification.algorithms",
        default=["HmacSHA256"],
        check=non_empty(),
        importance=LOW,
        doc="What this worker accepts; must hold the algorithm that it signs with.",
    )
