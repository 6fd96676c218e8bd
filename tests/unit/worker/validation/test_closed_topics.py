"""No connector names a topic of its own cluster that has the worker's configs, offsets or statuses."""

from typing import Any

import pytest

from fencepost.config import ConfigError
from fencepost.config.worker import WorkerConfig
from fencepost.plugin import PluginRegistry
from fencepost.worker.validation.validation import validate_connector
from support.settings import SETTINGS

CLOSED = ["connect-configs", "connect-offsets", "connect-status", "__consumer_offsets", "__remote_log_metadata"]
OWN = {
    "config.storage.topic": "connect-configs",
    "offset.storage.topic": "connect-offsets",
    "status.storage.topic": "connect-status",
}
WORKER = WorkerConfig({**SETTINGS, **OWN, "bootstrap.servers": "b1:9,b2:9", "exactly.once.source.support": "enabled"})
SOURCE = {"connector.class": "FileStreamSource", "file": "/f", "topic": "t"}
SINK = {"connector.class": "FileStreamSink", "file": "/f", "topics": "t"}
STREAM = {"connector.class": "TopicTransform", "topics": "t", "output.topic": "u"}
SQL = {"connector.class": "TopicSql", "topics": "t", "output.topic": "u", "transforms.sql": "SELECT * FROM records"}
LETTERS = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": "letters",
    "errors.deadletterqueue.context.headers.enable": "true",
}
RESEND = "errors.deadletterqueue.resend.topic.name"
DEAD = "errors.deadletterqueue.topic.name"
PRODUCER, CONSUMER = ("producer.override.bootstrap.servers", "consumer.override.bootstrap.servers")


def faults(config: dict[str, str]) -> dict[str, tuple[str, ...]]:
    report = validate_connector({"name": "n", **config}, plugins=PluginRegistry(), worker=WORKER)
    return {one.value.name: one.value.errors for one in report.configs if one.value.errors}


@pytest.mark.parametrize(
    ("config", "key"),
    [
        (SOURCE, "topic"),
        (SOURCE, "offsets.storage.topic"),
        (SOURCE, "ledger.topic"),
        ({**SOURCE, **LETTERS}, DEAD),
        (SINK, "topics"),
        ({**SINK, **LETTERS}, DEAD),
        ({**SINK, **LETTERS}, RESEND),
        (STREAM, "topics"),
        (STREAM, "output.topic"),
        (SQL, "output.topic"),
        ({"connector.class": "Datagen", "fields": "n:sequence"}, "topic"),
    ],
    ids=lambda value: value if isinstance(value, str) else value["connector.class"],
)
@pytest.mark.parametrize("topic", CLOSED[:2])
def test_topic_of_the_worker_is_refused_when_a_key_names_it(config: dict[str, str], key: str, topic: str) -> None:
    given = f"orders,{topic}" if key == "topics" else topic
    found = faults({**config, key: given})
    assert list(found) == [key], found
    assert any(topic in text and "connectors may not read or write it" in text for text in found[key])


@pytest.mark.parametrize("regex", ["connect-configs", "connect-(configs|offsets)", "__consumer_offsets"])
def test_regex_is_refused_when_it_matches_topics_of_the_worker_only(regex: str) -> None:
    found = faults({"connector.class": "FileStreamSink", "file": "/f", "topics.regex": regex})
    assert list(found) == ["topics.regex"], found


@pytest.mark.parametrize("regex", [".*", "__.*", "connect-.*", "(connect-configs|orders)", "orders-.*"])
def test_regex_is_accepted_when_it_matches_other_topics_as_well(regex: str) -> None:
    assert not faults({"connector.class": "FileStreamSink", "file": "/f", "topics.regex": regex})


@pytest.mark.parametrize(
    "config",
    [
        {**SOURCE, "topic": "connect-configs", PRODUCER: "elsewhere:9"},
        {**SOURCE, "offsets.storage.topic": "connect-offsets", PRODUCER: "elsewhere:9"},
        {**SINK, "topics": "connect-configs,__consumer_offsets", CONSUMER: "elsewhere:9"},
        {**SINK, **LETTERS, DEAD: "connect-status", PRODUCER: "elsewhere:9"},
        {**STREAM, "topics": "connect-configs", CONSUMER: "elsewhere:9", PRODUCER: "elsewhere:9"},
        {**SOURCE, "topic": "connect-configs-of-payments"},
        {**SOURCE, "topic": "_schemas"},
        {**SINK, "topics": "__debezium-heartbeat.shop"},
        {**SOURCE, "topic": "__audit", "ledger.topic": "__ledger"},
        {**STREAM, "output.topic": "__x"},
        {**SOURCE, "schema.history.internal.kafka.topic": "__debezium-schema-history",
         "signal.kafka.topic": "__signals", "heartbeat.topics.prefix": "__heartbeat"},
        {**SOURCE, "offsets.storage.topic": "orders-offsets"},
        {**SOURCE, "topic.creation.groups": "g", "topic.creation.g.include": "connect-configs",
         "topic.creation.g.exclude": "connect-configs", "topic.creation.default.partitions": "1",
         "topic.creation.default.replication.factor": "1"},
    ],
    ids=str,
)  # fmt: skip
def test_topic_is_accepted_when_it_is_on_another_cluster_or_not_the_workers(config: dict[str, Any]) -> None:
    assert not faults(config)


@pytest.mark.parametrize("servers", ["b1:9", "b2:9,b1:9", "elsewhere:9,b1:9"])
def test_topic_of_the_worker_is_refused_when_overrides_name_the_workers_cluster(servers: str) -> None:
    assert list(faults({**SOURCE, "topic": "connect-configs", PRODUCER: servers})) == ["topic"]


@pytest.mark.parametrize("topic", CLOSED)
def test_each_topic_of_the_worker_is_refused_when_a_source_writes_to_it(topic: str) -> None:
    assert list(faults({**SOURCE, "topic": topic})) == ["topic"]


def test_ledger_of_the_workers_file_is_refused_when_it_is_a_topic_of_the_worker() -> None:
    with pytest.raises(ConfigError, match=r"connect-configs for configuration ledger\.topic"):
        WorkerConfig({**WORKER.originals, "ledger.topic": "connect-configs"})
