"""An editor of `orders-*` against `payments`: every key that names something of the workers or of others."""

import pytest

from fencepost.cluster.command import PutConnector
from fencepost.cluster.errors import BadRequestError
from fencepost.config.worker import WorkerConfig
from fencepost.plugin import PluginRegistry
from fencepost.storage import records
from fencepost.worker.validation.validation import require_valid, validate_connector
from support.memory_topic import MemoryTopic
from support.settings import SETTINGS

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="w" password="pw";'
WORKER = WorkerConfig(
    {
        **SETTINGS,
        "bootstrap.servers": "b:9",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": JAAS,
        "exactly.once.source.support": "enabled",
    }
)
SOURCE = {"connector.class": "FileStreamSource", "file": "/f", "topic": "orders"}
SINK = {"connector.class": "FileStreamSink", "file": "/f", "topics": "orders"}
STREAM = {"connector.class": "TopicTransform", "topics": "orders", "output.topic": "flat"}
SQL = {"connector.class": "TopicSql", "topics": "orders", "output.topic": "flat"}
LETTERS = {"errors.tolerance": "all", "errors.deadletterqueue.context.headers.enable": "true"}
LETTER = "errors.deadletterqueue.topic.name"
STORED = MemoryTopic().write(
    records.connector_config("payments", SINK),
    records.connector_config("payments-eu", {**SINK, "consumer.override.group.id": "payments-readers"}),
)
ATTEMPTS: list[dict[str, str]] = [
    {**SOURCE, "topic": "connect-configs"},
    {**SOURCE, "topic": "connect-status"},
    {**SOURCE, "topic": "__transaction_state"},
    {**SOURCE, "offsets.storage.topic": "connect-configs"},
    {**SOURCE, "offsets.storage.topic": "connect-status"},
    {**SOURCE, "ledger.topic": "connect-offsets"},
    {**SOURCE, **LETTERS, LETTER: "connect-configs"},
    {**SINK, "topics": "orders,connect-configs"},
    {**SINK, "topics": "__consumer_offsets"},
    {**SINK, "topics": "", "topics.regex": "connect-configs"},
    {**SINK, "topics": "", "topics.regex": "connect-(configs|status|offsets)"},
    {**SINK, **LETTERS, LETTER: "connect-configs"},
    {**SINK, **LETTERS, LETTER: "letters", "errors.deadletterqueue.resend.topic.name": "connect-configs"},
    {**STREAM, "topics": "connect-configs"},
    {**STREAM, "output.topic": "connect-configs"},
    {**SQL, "output.topic": "connect-offsets"},
    {**SOURCE, "producer.override.bootstrap.servers": "evil:9"},
    {**SOURCE, "admin.override.bootstrap.servers": "evil:9"},
    {**SINK, "consumer.override.bootstrap.servers": "b:9,evil:9"},
    {**SOURCE, "producer.override.security.protocol": "SASL_PLAINTEXT"},
    {**SINK, "consumer.override.security.protocol": "SASL_PLAINTEXT"},
    {**SOURCE, "producer.override.ssl.endpoint.identification.algorithm": ""},
    {**SOURCE, "producer.override.sasl.oauthbearer.token.endpoint.url": "http://evil"},
    {**SOURCE, "producer.override.sasl.login.callback.handler.class": "evil.Handler"},
    {**SOURCE, "producer.override.ssl.keystore.location": "/etc/fencepost/keystore.pem"},
    {**SOURCE, "config.providers": "file"},
    {**SINK, "consumer.override.group.id": "connect-payments"},
    {**SINK, "consumer.override.group.id": "connect-payments-eu"},
    {**SINK, "consumer.override.group.id": "payments-readers"},
    {**SINK, "consumer.override.group.id": WORKER.group_id},
]


@pytest.mark.parametrize("config", ATTEMPTS, ids=lambda config: " ".join(f"{k}={v}" for k, v in config.items())[-70:])
def test_editor_is_refused_when_a_config_names_what_is_not_theirs(config: dict[str, str]) -> None:
    with pytest.raises(BadRequestError):
        put({"name": "orders-x", **config})


def test_editor_is_accepted_when_a_config_names_their_own() -> None:
    for config in (SOURCE, SINK, STREAM, {**SINK, "consumer.override.group.id": "orders-readers"}):
        put({"name": "orders-x", **config})


def put(config: dict[str, str]) -> None:
    """Do with a config what a leader does before it stores it."""
    require_valid(validate_connector(dict(config), plugins=PluginRegistry(), worker=WORKER))
    assert PutConnector("orders-x", dict(config)).decide(STORED)
