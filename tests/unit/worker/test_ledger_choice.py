"""Which connectors inherit the worker's ledger."""

import pytest

from fencepost.config.worker import WorkerConfig
from fencepost.worker.plan import ConnectorPlan, ledger_topic

NEEDED = ("group.id", "config.storage.topic", "offset.storage.topic", "status.storage.topic")
CONVERTERS = {"key.converter": "JsonConverter", "value.converter": "JsonConverter"}
LINES = {"connector.class": "FileStreamSource", "file": "/f", "topic": "t"}


def worker(**more: str) -> WorkerConfig:
    given = {"exactly_once_source_support": "enabled", "ledger_topic": "of-all", **more}
    settings = {key.replace("_", "."): value for key, value in given.items()}
    return WorkerConfig({**dict.fromkeys(NEEDED, "x"), **CONVERTERS, **settings})


@pytest.mark.parametrize(
    ("config", "topic"),
    [
        (LINES, "of-all"),
        ({**LINES, "ledger.topic": "own"}, "own"),
        ({**LINES, "ledger.topic": ""}, ""),
        ({**LINES, "producer.client": "librdkafka"}, ""),
        ({**LINES, "producer.override.sasl.mechanism": "GSSAPI"}, ""),
        ({"connector.class": "FileStreamSink", "topics": "t", "file": "/f"}, ""),
        ({"connector.class": "SpoolDirectorySource", "path": "/d", "topic": "t"}, ""),
        ({"connector.class": "MirrorSourceConnector"}, ""),
        ({"connector.class": "NotInstalled"}, ""),
    ],
)
def test_source_inherits_the_workers_ledger_unless_configured_or_impossible(config, topic):
    assert ledger_topic(ConnectorPlan(worker(), config)) == topic


def test_source_has_no_ledger_without_exactly_once() -> None:
    assert (
        ledger_topic(ConnectorPlan(worker(exactly_once_source_support="disabled"), {**LINES, "ledger.topic": "own"}))
        == ""
    )


def test_source_has_only_its_own_ledger_when_the_workers_file_names_none() -> None:
    assert ledger_topic(ConnectorPlan(worker(ledger_topic=""), LINES)) == ""
    assert ledger_topic(ConnectorPlan(worker(ledger_topic=""), {**LINES, "ledger.topic": "own"})) == "own"
