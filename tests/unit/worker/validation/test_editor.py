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
LETTERS_TOPIC = {**LETTERS, LETTER: "letters"}
RESEND = "errors.deadletterqueue.resend.topic.name"
GROUP = "consumer.override.group.id"
ATTEMPTS: list[tuple[dict[str, str], dict[str, str]]] = [
    (SOURCE, {"topic": "connect-configs"}),
    (SOURCE, {"topic": "connect-status"}),
    (SOURCE, {"topic": "__transaction_state"}),
    (SOURCE, {"offsets.storage.topic": "connect-configs"}),
    (SOURCE, {"offsets.storage.topic": "connect-status"}),
    (SOURCE, {"ledger.topic": "connect-offsets"}),
    ({**SOURCE, **LETTERS}, {LETTER: "connect-configs"}),
    (SINK, {"topics": "orders,connect-configs"}),
    (SINK, {"topics": "__consumer_offsets"}),
    (SINK, {"topics": "^connect-configs"}),
    (SINK, {"topics": "orders,^connect-.*"}),
    (SINK, {"topics": "^__consumer_offsets"}),
    ({**SINK, "topics": ""}, {"topics.regex": "connect-configs"}),
    ({**SINK, "topics": ""}, {"topics.regex": "connect-(configs|status|offsets)"}),
    ({**SINK, **LETTERS}, {LETTER: "connect-configs"}),
    ({**SINK, **LETTERS_TOPIC}, {RESEND: "connect-configs"}),
    ({**SINK, **LETTERS_TOPIC}, {RESEND: "^connect-configs"}),
    (STREAM, {"topics": "connect-configs"}),
    (STREAM, {"topics": "^connect-configs"}),
    (STREAM, {"output.topic": "connect-configs"}),
    (SQL, {"topics": "^connect-configs"}),
    (SQL, {"output.topic": "connect-offsets"}),
    (SOURCE, {"producer.override.bootstrap.servers": "evil:9"}),
    (SOURCE, {"admin.override.bootstrap.servers": "evil:9"}),
    (SINK, {"consumer.override.bootstrap.servers": "b:9,evil:9"}),
    (SOURCE, {"producer.override.security.protocol": "SASL_PLAINTEXT"}),
    (SINK, {"consumer.override.security.protocol": "SASL_PLAINTEXT"}),
    (SOURCE, {"producer.override.ssl.endpoint.identification.algorithm": ""}),
    (SOURCE, {"producer.override.sasl.oauthbearer.token.endpoint.url": "http://evil"}),
    (SOURCE, {"producer.override.sasl.login.callback.handler.class": "evil.Handler"}),
    (SOURCE, {"producer.override.ssl.keystore.location": "/etc/fencepost/keystore.pem"}),
    (SOURCE, {"config.providers": "file"}),
    (SINK, {GROUP: "connect-payments"}),
    (SINK, {GROUP: "connect-payments-eu"}),
    (SINK, {GROUP: "payments-readers"}),
    (SINK, {GROUP: WORKER.group_id}),
]


@pytest.mark.parametrize(
    ("config", "attempt"), ATTEMPTS, ids=lambda each: " ".join("=".join(i) for i in each.items())[-70:]
)
def test_editor_is_refused_when_a_config_names_things_outside_their_rights(
    config: dict[str, str], attempt: dict[str, str]
) -> None:
    (key,) = attempt
    assert refused_keys({"name": "orders-x", **config, **attempt}) == {key}


def test_editor_is_accepted_when_a_config_names_things_within_their_rights() -> None:
    for config in (SOURCE, SINK, STREAM, {**SINK, GROUP: "orders-readers"}):
        put({"name": "orders-x", **config})


def refused_keys(config: dict[str, str]) -> set[str]:
    """Return the keys whose values are refused, at validation or by the leader."""
    report = validate_connector(dict(config), plugins=PluginRegistry(), worker=WORKER)
    keys = {each.value.name for each in report.configs if each.value.errors}
    if keys:
        with pytest.raises(BadRequestError):
            require_valid(report)
        return keys
    with pytest.raises(BadRequestError) as raised:
        PutConnector("orders-x", dict(config)).decide(STORED)
    return {key for key in config if f" {key}:" in str(raised.value)}


def put(config: dict[str, str]) -> None:
    """Do with a config what a leader does before it stores it."""
    require_valid(validate_connector(dict(config), plugins=PluginRegistry(), worker=WORKER))
    assert PutConnector("orders-x", dict(config)).decide(STORED)
