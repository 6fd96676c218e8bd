"""What a config of a stream is told that is wrong on its way out, or in its transactions."""

import pytest

from fencepost.api import SinkBatch, StreamConnector, StreamTask
from fencepost.config.worker import WorkerConfig
from fencepost.worker.validation.validation import validate_connector
from support.plugins import OwnPlugins
from support.settings import SETTINGS


class Task(StreamTask):
    def process(self, batch: SinkBatch) -> SinkBatch:
        return batch.to("out")


class Stream(StreamConnector):
    task = Task


def faults(**settings: str) -> dict[str, list[str]]:
    given = {"name": "c", "connector.class": "Stream", "topics": "t"}
    given |= {key.replace("__", "."): value for key, value in settings.items()}
    worker = WorkerConfig({**SETTINGS, "bootstrap.servers": "b:9"})
    report = validate_connector(given, plugins=OwnPlugins(Stream=Stream), worker=worker)
    return {one.value.name: list(one.value.errors) for one in report.configs if one.value.errors}


def test_stream_config_with_only_topics_is_valid() -> None:
    assert faults() == {}


def test_input_and_output_of_a_stream_can_have_converters_and_transforms() -> None:
    assert (
        faults(
            output__value__converter="JsonConverter",
            output__value__converter__schemas__enable="false",
            output__transforms="there",
            output__transforms__there__type="RegexRouter",
            output__transforms__there__regex="(.*)",
            output__transforms__there__replacement="$1-out",
            transforms="static",
            transforms__static__type="InsertField$Value",
            transforms__static__static__field="a",
            transforms__static__static__value="b",
            transaction__boundary="interval",
            transaction__boundary__interval__ms="1000",
        )
        == {}
    )


@pytest.mark.parametrize(
    ("settings", "key", "text"),
    [
        ({"output__value__converter": "Nope"}, "output.value.converter", "Nope"),
        ({"output__transforms": "a"}, "output.transforms.a.type", "output.transforms.a.type"),
        (
            {"output__predicates": "a,a", "output__predicates__a__type": "RecordIsTombstone"},
            "output.predicates",
            "Duplicate alias",
        ),
        (
            {"output__key__converter": "JsonConverter", "output__key__converter__schemas__enable": "perhaps"},
            "output.key.converter.schemas.enable",
            "configuration schemas.enable: Expected value",
        ),
        ({"transaction__boundary": "connector"}, "transaction.boundary", "connector"),
        (
            {"transaction__boundary": "interval", "transaction__boundary__interval__ms": "60000"},
            "transaction.boundary.interval.ms",
            "transaction.timeout.ms",
        ),
        (
            {"consumer__override__isolation__level": "read_uncommitted"},
            "consumer.override.isolation.level",
            "only committed ones",
        ),
        ({"consumer__override__group__protocol": "consumer"}, "consumer.override.group.protocol", "KIP-848"),
        (
            {"producer__override__bootstrap__servers": "elsewhere:9"},
            "producer.override.bootstrap.servers",
            "one cluster",
        ),
        ({"topic__creation__default__partitions": "3"}, "topic.creation.default.replication.factor", "replication"),
    ],
)
def test_error_in_a_stream_config_has_the_key_that_the_user_wrote(
    settings: dict[str, str], key: str, text: str
) -> None:
    found = faults(**settings)
    assert list(found) == [key]
    assert len(found[key]) == 1
    assert text in found[key][0]
