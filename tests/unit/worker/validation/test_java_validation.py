"""Configs of Java connectors: the framework's keys are checked here, all others by Java, in one report."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fencepost.api import ExactlyOnceSupport
from fencepost.builtin.java.error import HostEndedError
from fencepost.cluster.info import KeyReport, ValidationReport
from fencepost.config.worker import WorkerConfig
from fencepost.worker.validation.validation import require_valid, validate_connector
from support.jars import SINK, SOURCE, TRANSFORM
from support.java_host import ScriptedHost, ScriptedJava, definition
from support.scripted_plugins import PRICES, ScriptedPlugins, plugins_with, used
from support.settings import SETTINGS

ROUND = "org.example.Round$Value"
POSTGRES = "io.debezium.connector.postgresql.PostgresConnector"
GOOD = {"name": "c", "connector.class": PRICES, "url": "jdbc:prices"}
WORKER = WorkerConfig({**SETTINGS, "bootstrap.servers": "b:9"})


@pytest.fixture
def machine() -> ScriptedJava:
    made = ScriptedJava()
    made.definitions[PRICES] = [definition("url"), definition("password", "PASSWORD", "", group="Access")]
    made.definitions[ROUND] = [definition("digits", "INT", "2")]
    made.faults = lambda name, value: [f"{name} must not be {value}"] if value == "wrong" else []
    return made


@pytest.fixture
def plugins(tmp_path: Path, machine: ScriptedJava) -> ScriptedPlugins:
    return plugins_with(tmp_path, {SOURCE: [PRICES], TRANSFORM: [ROUND], SINK: ["org.example.TableSink"]}, machine)


def validate(plugins: ScriptedPlugins, **more: Any) -> ValidationReport:
    with used(plugins):
        return validate_connector({**GOOD, **more}, plugins=plugins, worker=WORKER)


def keys(report: ValidationReport) -> dict[str, KeyReport]:
    return {one.value.name: one for one in report.configs}


def errors(report: ValidationReport) -> dict[str, tuple[str, ...]]:
    return {name: one.value.errors for name, one in keys(report).items() if one.value.errors}


def test_report_has_the_keys_of_the_worker_and_of_java(plugins: ScriptedPlugins) -> None:
    report = validate(plugins)
    assert report.error_count == 0
    assert {"name", "tasks.max", "transaction.boundary", "url", "password"} <= keys(report).keys()
    assert "Access" in report.groups
    require_valid(report)


def test_report_has_the_errors_of_the_worker_and_of_java(plugins: ScriptedPlugins) -> None:
    report = validate(plugins, url="wrong", **{"tasks.max": "0"})
    assert errors(report) == {
        "tasks.max": ("Invalid value 0 for configuration tasks.max: Value must be at least 1",),
        "url": ("url must not be wrong",),
    }
    assert report.error_count == 2


def test_transforms_and_converters_of_a_java_connector_are_java_classes(
    plugins: ScriptedPlugins, machine: ScriptedJava
) -> None:
    chain = {"transforms": "round", "transforms.round.type": "Round$Value", "transforms.round.digits": "3"}
    report = validate(plugins, **chain, **{"value.converter": "JsonConverter"})
    assert errors(report) == {}
    assert keys(report)["transforms.round.type"].value.value == ROUND
    assert keys(report)["transforms.round.digits"].value.value == "3"
    assert keys(report)["value.converter"].value.value == "org.apache.kafka.connect.json.JsonConverter"
    assert f"validate {ROUND}" in machine.asked


def test_errors_of_a_java_transform_are_in_the_report(plugins: ScriptedPlugins) -> None:
    chain = {"transforms": "round", "transforms.round.type": ROUND}
    wrong = validate(plugins, **chain, **{"transforms.round.digits": "many"})
    assert "Not a number of type INT" in errors(wrong)["transforms.round.digits"][0]
    plugins.machine.faults = lambda name, value: ["digits must be even"] if name == "digits" else []
    assert errors(validate(plugins, **chain)) == {"transforms.round.type": ("digits must be even",)}


def test_missing_class_is_named_with_the_command_that_installs_it(plugins: ScriptedPlugins) -> None:
    (text,) = errors(validate(plugins, **{"value.converter": "io.acme.CborConverter"}))["value.converter"]
    assert "io.acme.CborConverter could not be found" in text
    assert "`fencepost plugin install`, if it is a Java class" in text


@pytest.mark.parametrize("support", [ExactlyOnceSupport.SUPPORTED, ExactlyOnceSupport.UNSUPPORTED, None])
def test_exactly_once_support_is_requested_from_java(
    plugins: ScriptedPlugins, machine: ScriptedJava, support: ExactlyOnceSupport | None
) -> None:
    from support.java_host import ScriptedConnector

    plugins.java.plugins.hosts.inspection.take("test")  # type: ignore[union-attr]
    machine.hosts[0].connector = lambda *_: ScriptedConnector(machine.hosts[0], support=support)  # type: ignore[method-assign, assignment]
    report = validate(plugins, **{"exactly.once.support": "required"})
    found = errors(report).get("exactly.once.support", ())
    assert any("does not have exactly-once source support enabled" in text for text in found)
    assert any("preflight validation" in text or "does not support" in text for text in found) == (
        support is not ExactlyOnceSupport.SUPPORTED
    )


@pytest.mark.parametrize("can_define", [True, False])
def test_transaction_boundary_support_is_requested_from_java(
    plugins: ScriptedPlugins, machine: ScriptedJava, can_define: bool
) -> None:
    from support.java_host import ScriptedConnector

    class Connector(ScriptedConnector):
        def can_define_transaction_boundaries(self, properties: Mapping[str, str]) -> bool:
            return can_define

    plugins.java.plugins.hosts.inspection.take("test")  # type: ignore[union-attr]
    machine.hosts[0].connector = lambda *_: Connector(machine.hosts[0])  # type: ignore[method-assign, assignment]
    found = errors(validate(plugins, **{"transaction.boundary": "connector"})).get("transaction.boundary", ())
    assert any("transaction boundaries" in text for text in found) == (not can_define)


def test_a_java_source_may_have_dead_letters(plugins: ScriptedPlugins) -> None:
    assert "errors.deadletterqueue.topic.name" not in errors(
        validate(plugins, **{"errors.deadletterqueue.topic.name": "dead"})
    )


def test_a_sink_has_the_keys_of_sinks_and_may_have_dead_letters(plugins: ScriptedPlugins) -> None:
    config = {"connector.class": "TableSink", "topics": "a", "errors.deadletterqueue.topic.name": "dead"}
    report = validate(plugins, **config)
    assert report.error_count == 0
    assert {"topics", "topics.regex", "errors.deadletterqueue.context.headers.enable"} <= keys(report).keys()
    assert "topics" in errors(validate(plugins, **{"connector.class": "TableSink"}))


def test_a_sink_may_have_a_topic_for_resent_records(plugins: ScriptedPlugins) -> None:
    dead = {"errors.deadletterqueue.topic.name": "dead", "errors.deadletterqueue.context.headers.enable": "true"}
    config = {"connector.class": "TableSink", "topics": "a", "errors.deadletterqueue.resend.topic.name": "again"}
    assert validate(plugins, **config, **dead).error_count == 0


def test_end_of_the_host_is_an_error_at_the_connector_class(
    plugins: ScriptedPlugins, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise HostEndedError("the host for validation ended: exit code 3")

    monkeypatch.setattr(ScriptedHost, "validate", fail)
    monkeypatch.setattr(ScriptedHost, "definitions", fail)
    report = validate(plugins)
    assert errors(report) == {"connector.class": ("the host for validation ended: exit code 3",)}
    assert report.warnings == ()


def test_key_below_a_declared_key_of_a_java_connector_is_no_warning(
    plugins: ScriptedPlugins, machine: ScriptedJava
) -> None:
    """Iceberg's sink declares `iceberg.catalog`, and hands all that begins with it to its catalog."""
    machine.definitions[PRICES].append(definition("iceberg.catalog", "STRING", ""))
    more = {"iceberg.catalog.uri": "http://catalog", "iceberg.catalogue": "c", "tasks.maxx": "2"}
    assert {one.name for one in validate(plugins, **more).warnings} == {"iceberg.catalogue", "tasks.maxx"}


@pytest.fixture
def debezium(tmp_path: Path, machine: ScriptedJava) -> ScriptedPlugins:
    declared = (
        "topic.prefix",
        "table.include.list",
        "schema.history.internal.kafka.topic",
        "unavailable.value.placeholder",
    )
    machine.definitions[POSTGRES] = [definition(key, "STRING", None if "prefix" in key else "") for key in declared]
    machine.faults = lambda name, value: ["A value is required"] if name == "topic.prefix" and not value else []
    return plugins_with(tmp_path / "of_debezium", {SOURCE: [POSTGRES]}, machine)


OLD = {"database.server.name": "s", "table.whitelist": "a.b", "database.history.kafka.topic": "h"}


def of_debezium(plugins: ScriptedPlugins, **more: str) -> ValidationReport:
    with used(plugins):
        return validate_connector({"name": "c", "connector.class": POSTGRES, **more}, plugins=plugins, worker=WORKER)


def test_keys_of_debezium_1_are_explained_in_warnings(debezium: ScriptedPlugins) -> None:
    report = of_debezium(debezium, **OLD, **{"topic.prefix": "s"})
    assert errors(report) == {}
    assert {one.message for one in report.warnings} == {
        "database.server.name: nothing reads it since Debezium 2: rename it to topic.prefix",
        "table.whitelist: nothing reads it since Debezium 2: rename it to table.include.list",
        "database.history.kafka.topic: nothing reads it since Debezium 2: rename it to "
        "schema.history.internal.kafka.topic",
    }


def test_missing_key_of_debezium_names_the_old_one_that_the_config_has(debezium: ScriptedPlugins) -> None:
    missing = errors(of_debezium(debezium, **OLD))["topic.prefix"]
    assert missing[-1] == "It was database.server.name before Debezium 2, which this config has: rename that"
    assert len(missing) == 2
    assert len(errors(of_debezium(debezium))["topic.prefix"]) == 1


def test_old_key_that_a_class_still_reads_gets_no_warning(debezium: ScriptedPlugins, machine: ScriptedJava) -> None:
    machine.definitions[POSTGRES] = [definition(key) for key in OLD]
    assert of_debezium(debezium, **OLD).warnings == ()


def test_java_connector_is_not_validated_with_unresolved_references(
    plugins: ScriptedPlugins, machine: ScriptedJava
) -> None:
    """Debezium logs in to its database when it validates: with the text of the reference, as a role."""
    found = errors(validate(plugins, password="${secrets:a:b}", url="wrong"))
    assert found.keys() == {"password"}
    assert "refers to secrets, which config.providers does not name" in found["password"][0]
    assert f"validate {PRICES}" not in machine.asked
    assert errors(validate(plugins, url="wrong")).keys() == {"url"}
    assert f"validate {PRICES}" in machine.asked
