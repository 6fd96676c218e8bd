"""The connector whose dead letters a command is about, and where they are."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost.cli.client import BOOTSTRAP, client_properties
from fencepost.cli.connect import Connect
from fencepost.config import ConfigError
from fencepost.config.connector import DeadLetterConfig
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.kafka.setting.client_settings import admin_conf, range_conf

ASK_S = 10.0
_TOPIC = DeadLetterConfig.key_of("dead_letters_topic")
_READER = "fencepost-dead-letters"  # a group without commits
_NAME_IT = "set the worker's brokers with --bootstrap, or its file with --properties"


@dataclass(frozen=True)
class Where:
    """A worker, and the address of its Kafka.

    `properties`: a file of client settings, or the worker's own.
    """

    connect: Connect
    properties: Path | None = None
    bootstrap: str | None = None

    def client(self, connector: Mapping[str, str]) -> dict[str, str]:
        """Return the client settings for a connector's dead letters, which are where its producers write."""
        own = connector.get(f"producer.override.{BOOTSTRAP}")
        return client_properties(self.properties, self.bootstrap, own, self.connect.brokers)

    @property
    def is_given(self) -> bool:
        """Return whether the user says where Kafka is."""
        return self.properties is not None or self.bootstrap is not None


@dataclass(frozen=True)
class DescribedConnector:
    """A connector as REST describes it."""

    name: str
    kind: str
    config: Mapping[str, str]
    cluster_id: str

    @property
    def topic(self) -> str:
        """Return its dead letter topic. Raises ConfigError if it has none, or only a reference to one."""
        topic = (self.config.get(_TOPIC) or "").strip()
        if not topic:
            raise ConfigError(f"{self.name} has no dead letter topic: set {_TOPIC} in its config")
        if topic.startswith("${"):
            raise ConfigError(f"{_TOPIC} of {self.name} is {topic}, which only its worker can resolve: use --topic")
        return topic


def connector_at(connect: Connect, name: str) -> DescribedConnector:
    """Ask a worker. Raises ConfigError, with the next step, or RefusedError."""
    found = connect.find("connectors", name)
    if found is None:
        raise ConfigError(f"There is no connector {name} on the workers ({connect.access.named})")
    cluster_id = str(connect.get().get("kafka_cluster_id", ""))
    return DescribedConnector(name, str(found.get("type")), found["config"], cluster_id)


def reader_conf(connector: DescribedConnector, where: Where) -> dict[str, Any]:
    """Return the settings to read dead letters. Raises ConfigError if the brokers are not the worker's cluster."""
    properties = where.client(connector.config)
    try:
        with closing(Admin(admin_conf(properties).conf, timeout_s=ASK_S)) as admin:
            cluster_id = admin.cluster_id()
    except KafkaUnavailableError as error:
        raise ConfigError(f"{error}; {_NAME_IT}") from None
    is_elsewhere = f"producer.override.{BOOTSTRAP}" in connector.config
    if connector.cluster_id and cluster_id != connector.cluster_id and not is_elsewhere:
        raise ConfigError(
            f"The Kafka at {properties[BOOTSTRAP]} is {cluster_id}, but that of the worker "
            f"({where.connect.access.named}) is {connector.cluster_id}: {_NAME_IT}"
        )
    return dict(range_conf({**properties, "isolation.level": "read_committed"}, _READER).conf)
