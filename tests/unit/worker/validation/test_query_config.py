"""The config of a streaming query, as far as it can be checked without Spark."""

import pytest

from fencepost.cluster.info import ValidationReport
from fencepost.config.worker import WorkerConfig
from fencepost.plugin import PluginRegistry
from fencepost.worker.validation.validation import validate_connector
from support.settings import SETTINGS

WORKER = WorkerConfig({**SETTINGS, "bootstrap.servers": "b:9"})
GIVEN = {
    "name": "c",
    "connector.class": "SqlStream",
    "topics": "orders",
    "sql": "SELECT key FROM orders",
    "output.topic": "out",
    "checkpoint.location": "/checkpoint",
}


def report(**settings: str | None) -> ValidationReport:
    changed = {**GIVEN, **{key.replace("__", "."): value for key, value in settings.items()}}
    given = {key: value for key, value in changed.items() if value is not None}
    return validate_connector(given, plugins=PluginRegistry(), worker=WORKER)


def faults(found: ValidationReport) -> dict[str, str]:
    return {one.value.name: " ".join(one.value.errors) for one in found.configs if one.value.errors}


def test_query_that_no_spark_can_check_is_accepted_with_a_warning() -> None:
    found = report()
    assert faults(found) == {}
    assert [(each.name, "it was not checked, as Spark does not run" in each.message) for each in found.warnings] == [
        ("sql", True)
    ]


def test_missing_checkpoint_is_refused_with_its_purpose() -> None:
    text = faults(report(checkpoint__location=None))["checkpoint.location"]
    assert "Spark keeps the query's state and its position in the topics there" in text
    assert "a directory that all workers and executors reach" in text


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("transforms", "t", "remove it, and use sql"),
        ("topics__regex", "o.*", "each topic is a table of the query"),
        ("output__topic", "orders", "read them again, forever"),
        ("output__topic", "fencepost-writes", "connectors may not read or write it"),
        ("output__value__converter", "org.apache.kafka.connect.converters.LongConverter", "choose one of them"),
        (
            "output__value__converter",
            "io.confluent.connect.avro.AvroConverter",
            'Missing required configuration "schema',
        ),
        ("consumer__override__isolation__level", "read_uncommitted", "reads only committed ones"),
        ("output__mode", "complete", "cannot be replaced"),
    ],
)
def test_setting_that_a_query_cannot_have_is_refused(key: str, value: str, said: str) -> None:
    more: dict[str, str | None] = {key: value}
    if key == "transforms":
        more |= {"transforms__t__type": "Filter"}
    if key == "topics__regex":
        more["topics"] = None
    found = faults(report(**more))
    assert said in found[key.replace("__", ".")], found
