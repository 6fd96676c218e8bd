"""Which connectors inherit the worker's ledger."""

import pytest

from fencepost.config.worker import WorkerConfig
from fencepost.worker.ledger_choice import ledger_topic

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
def test_a_source_inherits_the_workers_ledger_unless_its_config_says_otherwise_or_it_cannot_have_one(config, topic):
    assert ledger_topic(worker(), config) == topic


def test_without_exactly_once_no_source_has_a_ledger() -> None:
    assert ledger_topic(worker(exactly_once_source_support="disabled"), {**LINES, "ledger.topic": "own"}) == ""


def test_without_a_ledger_in_the_workers_file_a_source_has_only_its_own() -> None:
    assert ledger_topic(worker(ledger_topic=""), LINES) == ""
    assert ledger_topic(worker(ledger_topic=""), {**LINES, "ledger.topic": "own"}) == "own"
