"""What follows from a connector's config: which ledger it inherits, and which keys may not be references."""

import pytest

from fencepost.config import ConfigError
from fencepost.config.worker import WorkerConfig
from fencepost.worker.plan import ConnectorPlan, fixed_reference_faults, ledger_topic, refuse_fixed_references

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


@pytest.mark.parametrize(
    "key",
    ["name", "connector.class", "offsets.storage.topic", "producer.override.bootstrap.servers", "slot.dedicated",
     "errors.restart.enabled", "config.action.reload", "consumer.override.group.id",
     "consumer.override.bootstrap.servers"],
)  # fmt: skip
def test_reference_in_a_fixed_key_is_refused_with_the_key(key: str) -> None:
    assert fixed_reference_faults({key: "${env:X}"})[key].startswith(f"{key}: ${{env:X}} is not possible here")
    with pytest.raises(ConfigError, match="write the value itself"):
        refuse_fixed_references({key: "${env:X}"})


def test_reference_is_accepted_in_keys_that_are_not_fixed() -> None:
    refuse_fixed_references({"topic": "${env:X}", "tasks.max": "${env:N}", "name": "${topic}", "connector.class": None})
