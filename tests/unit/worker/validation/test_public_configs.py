"""Configs as public documentation has them: taken, or refused with the advice that helps."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fencepost.builtin.java.install.known import plugin_of
from fencepost.cluster.errors import BadRequestError
from fencepost.config.worker import WorkerConfig
from fencepost.plugin import PluginRegistry
from fencepost.worker.validation.validation import validate_connector
from support.settings import SETTINGS

FIXTURE = Path(__file__).parents[3] / "fixtures" / "public-configs.json"
CONFIGS = {one["name"]: one["config"] for one in json.loads(FIXTURE.read_text())}
OF_ANOTHER = re.compile(
    r", a Java plug-in: install it in plugin\.path \(`fencepost plugin install[^`]*`[^)]*\) "
    r"and restart the worker, or use "
)

REFUSED = {
    "debezium postgres": "the connector PostgresSource",
    "debezium mysql": "a SourceConnector of your own over the database's change stream",
    "jdbc source": "the connector JdbcSource",
    "jdbc sink": "the connector PostgresSink, or elsewhere",
    "s3 sink": "the connector FilesSink, whose path may be an s3a:// path",
    "elasticsearch sink": "a SinkConnector of your own, whose put() writes batches",
    "http sink": "a SinkConnector of your own, whose put() writes batches",
    "mongo source": "a SourceConnector of your own over the database's change stream",
    "mongo sink": "a SinkConnector of your own, whose put() writes batches",
    "datagen": "the connector Datagen",
    "iceberg sink": "a DataFrameSink of your own, whose write() has Spark write an epoch",
    "iceberg sink of a REST catalog": "a DataFrameSink of your own, whose write() has Spark write an epoch",
    "debezium postgres outbox": "the connector PostgresSource",
    "debezium postgres 1": "the connector PostgresSource",
    "debezium mysql 1": "a SourceConnector of your own over the database's change stream",
    "debezium jdbc sink": "the connector PostgresSink, or elsewhere",
}
"""Configs whose connector is somebody else's, and what is said to use instead."""

FAULTS = {
    "file sink after debezium": {
        "transforms.route.type": "a Transform of your own, which returns the record with another topic"
    },
}
"""Configs whose connector is here, and their errors."""

WARNED = {"misspelled": {"tasks.maxx", "value.convertor", "errors.tolerence", "transform.x.type"}}
"""Configs that are taken, with warnings about these keys."""


def errors(name: str) -> tuple[dict[str, str], set[str]]:
    """Return the errors of a config by key, and the keys that it is warned of."""
    worker = WorkerConfig({**SETTINGS, "bootstrap.servers": "b:9"})
    report = validate_connector(CONFIGS[name], plugins=PluginRegistry(), worker=worker)
    said = {one.value.name: "\n".join(one.value.errors) for one in report.configs if one.value.errors}
    return said, {one.name for one in report.warnings}


@pytest.mark.parametrize("name", [name for name in CONFIGS if name not in (*REFUSED, *FAULTS)])
def test_config_of_installed_classes_is_accepted(name: str) -> None:
    assert errors(name) == ({}, WARNED.get(name, set()))


@pytest.mark.parametrize(("name", "advice"), REFUSED.items())
def test_config_of_a_connector_that_is_not_installed_is_refused_with_advice(name: str, advice: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        errors(name)
    [how] = OF_ANOTHER.findall(caught.value.message)
    _, said = OF_ANOTHER.split(caught.value.message)
    assert said.startswith(advice)
    known = plugin_of(CONFIGS[name]["connector.class"])
    assert (known.command if known else "(`fencepost plugin install`)") in how


@pytest.mark.parametrize(("name", "expected"), FAULTS.items())
def test_config_with_a_transform_that_is_not_installed_is_refused_with_the_key(
    name: str, expected: dict[str, Any]
) -> None:
    said, _ = errors(name)
    assert said.keys() == expected.keys()
    assert all(OF_ANOTHER.split(said[key])[1].startswith(advice) for key, advice in expected.items())


def test_every_expectation_belongs_to_a_config() -> None:
    assert {*REFUSED, *FAULTS, *WARNED} <= CONFIGS.keys()
    assert len(CONFIGS) >= 13
