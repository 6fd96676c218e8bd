"""As whom the clients of a worker and of a connector come to Kafka, by the settings that they are really made with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.cluster.acl import Access, ConnectorAccess, WorkerAccess
from fencepost.config import ConfigError
from fencepost.config.connector import RuntimeChoice, SourceConnectorConfig
from fencepost.config.worker import WorkerConfig
from fencepost.worker.settings import WorkerSettings

ROLES = ("worker", "producer", "consumer", "admin")
UNKNOWN_TOPIC = "TOPIC"
_TOPIC_KEY = "topic"
# Transforms that leave the topic as it is; of any other it is not known.
_SAME_TOPIC = ("Filter", "InsertField", "ReplaceField")


@dataclass(frozen=True)
class Principals:
    """Names of principals: those given by role, else what the settings of a client say."""

    given: Mapping[str, str] = field(default_factory=dict)

    def of(self, role: str, conf: Mapping[str, Any]) -> Access:
        """Return the access of a client with these settings (librdkafka's)."""
        cluster = str(conf.get("bootstrap.servers", ""))
        return Access(cluster, self.given.get(role) or _principal(role, conf))


def worker_access(config: WorkerConfig, principals: Principals) -> WorkerAccess:
    """Return what the workers with this file are."""
    return WorkerAccess(
        principals.of("worker", WorkerSettings(config, "", "").admin_conf()),
        config.group_id,
        config.config_storage_topic,
        config.offset_storage_topic,
        config.status_storage_topic,
    )


def connector_access(
    config: WorkerConfig,
    connector: Mapping[str, str],
    principals: Principals,
    *,
    topics: Sequence[str] = (),
    has_initial_offsets: bool = False,
    is_prefixed: bool = False,
) -> ConnectorAccess:
    """Return what a source connector is on such workers.

    Args:
        connector: its config, `name` included.
        topics: what it writes to; empty: what its config says.

    Raises:
        ConfigError: the config is wrong.
    """
    settings = WorkerSettings(config, "", "")
    source, choice = SourceConnectorConfig(connector), RuntimeChoice(connector)
    return ConnectorAccess(
        name=source.name,
        producer=principals.of("producer", settings.task_producer_conf(connector)),
        admin=principals.of("admin", settings.task_admin_conf(connector)),
        consumer=principals.of("consumer", settings.task_reader_conf(connector)),
        offsets_topic=settings.offsets_topic(connector),
        topics=tuple(topics) or topics_of(connector),
        tasks=source.tasks_max,
        lanes=choice.transaction_lanes,
        is_exactly_once=settings.is_exactly_once,
        has_own_offsets=settings.may_have_own_offsets(connector),
        has_initial_offsets=has_initial_offsets,
        creates_topics=config.topic_creation_enable and bool(source.topic_creation()),
        is_prefixed=is_prefixed,
    )


def topics_of(connector: Mapping[str, str]) -> tuple[str, ...]:
    """Return the topic that a config names; a stand-in where it names none, or a transform may choose another."""
    source = SourceConnectorConfig(connector)
    types = [spec.type.rpartition(".")[2].partition("$")[0] for spec in source.transform_specs()]
    topic = connector.get(_TOPIC_KEY)
    return (topic,) if topic and all(name in _SAME_TOPIC for name in types) else (UNKNOWN_TOPIC,)


def _principal(role: str, conf: Mapping[str, Any]) -> str:
    """Return the principal of a client, by Kafka's defaults (`ssl.principal.mapping.rules` are the broker's)."""
    protocol = str(conf.get("security.protocol", "plaintext")).lower()
    if protocol.startswith("sasl_"):
        name = conf.get("sasl.username")
        return f"User:{name}" if name else f"User:{role.upper()}"
    if protocol == "ssl" and any(key in conf for key in _CERTIFICATES):
        return f"User:{role.upper()}"
    return "User:ANONYMOUS"


_CERTIFICATES = ("ssl.keystore.location", "ssl.certificate.location", "ssl.certificate.pem")


def parse_principals(texts: Sequence[str]) -> Principals:
    """Read `role=User:name`. Raises ConfigError."""
    given = {}
    for text in texts:
        role, equals, principal = text.partition("=")
        if role not in ROLES or not equals:
            raise ConfigError(f"--principal {text}: write it as ROLE=User:NAME; roles are {', '.join(ROLES)}")
        if not principal.partition(":")[2]:
            raise ConfigError(f"--principal {text}: a principal has a type and a name, such as User:{principal}")
        given[role] = principal
    return Principals(given)
