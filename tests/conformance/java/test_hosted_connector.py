"""Connectors and questions about classes in a real host."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.api import ExactlyOnceSupport
from fencepost.builtin.java.client.host import JavaHost
from fencepost.builtin.java.client.session import HostedConnector
from fencepost.builtin.java.error import JavaError
from fencepost.builtin.java.port import Description, JavaClass, Location
from fencepost.record import TopicPartition
from support.java_plugins import STRING, file_class

_SECONDS = 60  # until what a thread of Java's does arrives here


class Context:
    """Keeps what a connector asks for."""

    def __init__(self) -> None:
        self.is_asked = threading.Event()
        self.error: Exception | None = None
        self.is_raised = threading.Event()
        self.committed: list[tuple[dict[str, Any], dict[str, Any]]] = [({"p": "p"}, {"n": 41})]

    def request_task_reconfiguration(self) -> None:
        self.is_asked.set()

    def raise_error(self, error: Exception) -> None:
        self.error = error
        self.is_raised.set()

    def remark(self, text: str | None) -> None:
        raise AssertionError("a Java connector has no such call")

    def offsets(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return self.committed


@pytest.fixture
def context() -> Context:
    return Context()


@pytest.fixture
def connector(host: JavaHost, plugins: Location, context: Context) -> Iterator[HostedConnector]:
    made = host.connector(JavaClass("tests.ScriptedConnector", plugins), "made", context)
    yield made
    made.close()


def test_description_of_a_class_has_its_version(host: JavaHost, plugins: Location) -> None:
    assert host.ask.describe(file_class("FileStreamSinkConnector")) == Description("4.3.1")
    assert host.ask.describe(JavaClass(STRING)) == Description("4.3.1")
    assert host.ask.describe(JavaClass("tests.ScriptedConnector", plugins)) == Description("1.2.3")
    assert host.ask.describe(JavaClass("tests.Picky", plugins)) == Description("undefined")


def test_config_definitions_of_a_class_have_the_form_of_rest(host: JavaHost, plugins: Location) -> None:
    (troubles,) = host.ask.definitions(JavaClass("tests.Picky", plugins))
    assert troubles == {
        "name": "troubles",
        "type": "INT",
        "required": False,
        "default_value": "0",
        "importance": "LOW",
        "documentation": "How often.",
        "group": None,
        "order_in_group": -1,
        "width": "NONE",
        "display_name": "troubles",
        "dependents": [],
    }
    names = [each["name"] for each in host.ask.definitions(file_class("FileStreamSourceConnector"))]
    assert names == ["file", "topic", "batch.size"]


def test_a_config_is_validated_by_the_connector(host: JavaHost, plugins: Location) -> None:
    java_class = JavaClass("tests.ScriptedConnector", plugins)
    found = host.ask.validate(java_class, {"password": "hidden-word"})
    assert found["name"] == "tests.ScriptedConnector"
    assert found["error_count"] == 2
    polls, password = sorted((each["value"] for each in found["configs"]), key=lambda value: value["name"] != "polls")
    assert polls["errors"][0].startswith('Missing required configuration "polls"')
    assert f"PluginClassLoader{{pluginLocation=file:{plugins.path}" in polls["errors"][1]
    assert password["value"] == "[hidden]"
    assert host.ask.validate(java_class, {"polls": "a"})["error_count"] == 1  # the text with which it shows its loader


def test_a_config_of_a_transform_is_validated(host: JavaHost, plugins: Location) -> None:
    found = host.ask.validate(JavaClass("tests.Picky", plugins), {"troubles": "many"})
    assert found["configs"][0]["value"]["errors"] == [
        "Invalid value many for configuration troubles: Not a number of type INT"
    ]


def test_a_connector_plans_its_tasks(connector: HostedConnector, plugins: Location) -> None:
    assert connector.version == "1.2.3"
    assert connector.task_class == JavaClass("tests.ScriptedTask", plugins)
    connector.start({"polls": "a"})
    offset = "{n=41}"
    assert connector.task_configs(2) == [
        {"polls": "a", "number": "0", "offset": offset},
        {"polls": "a", "number": "1", "offset": offset},
    ]
    connector.stop()


def test_a_connector_reads_the_newest_offsets(connector: HostedConnector, context: Context) -> None:
    connector.start({"polls": "a"})
    context.committed = [({"p": "p"}, {"n": 42}), ({"p": "q"}, {"n": 1})]
    assert connector.task_configs(1)[0]["offset"] == "{n=42}"
    context.committed = []
    assert connector.task_configs(1)[0]["offset"] == "null"


def test_unreadable_offsets_are_an_error_and_not_missing_offsets(
    connector: HostedConnector, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    connector.start({"polls": "a"})
    context.committed = [({"p": "p"}, {"n": 2**80})]
    with pytest.raises(JavaError, match="Integer exceeds 64-bit range"):
        connector.task_configs(1)

    def fail() -> None:
        raise ConnectionError("no broker answers")

    monkeypatch.setattr(context, "offsets", fail)
    with pytest.raises(JavaError, match="ConnectionError: no broker answers"):
        connector.task_configs(1)


def test_request_for_task_reconfiguration_reaches_the_context(connector: HostedConnector, context: Context) -> None:
    connector.start({"polls": "a", "asks": "yes"})
    assert context.is_asked.wait(_SECONDS)


def test_context_that_waits_for_the_host_delays_no_other_call(
    connector: HostedConnector, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_planned = threading.Event()
    waited: list[bool] = []
    is_done = threading.Event()

    def wait_for_plan() -> None:
        context.is_asked.set()
        waited.append(is_planned.wait(_SECONDS))
        is_done.set()

    monkeypatch.setattr(context, "request_task_reconfiguration", wait_for_plan)
    connector.start({"polls": "a", "asks": "yes"})
    assert context.is_asked.wait(_SECONDS)
    assert connector.task_configs(1)[0]["offset"] == "{n=41}"  # for which the host asks the same context
    is_planned.set()
    assert is_done.wait(_SECONDS)
    assert waited == [True]


def test_error_raised_in_a_connectors_thread_reaches_the_context(connector: HostedConnector, context: Context) -> None:
    connector.start({"polls": "a", "raises": "the source is gone"})
    assert context.is_raised.wait(_SECONDS)
    assert isinstance(context.error, JavaError)
    assert "ConnectException: the source is gone" in str(context.error)


def test_failed_start_is_raised_with_its_reason(connector: HostedConnector) -> None:
    with pytest.raises(JavaError, match="cannot start: no network"):
        connector.start({"fails": "no network"})


def test_connector_declares_support_for_exactly_once_and_boundaries(connector: HostedConnector) -> None:
    assert connector.exactly_once_support({}) is None
    assert connector.exactly_once_support({"support": "SUPPORTED"}) is ExactlyOnceSupport.SUPPORTED
    assert connector.exactly_once_support({"support": "UNSUPPORTED"}) is ExactlyOnceSupport.UNSUPPORTED
    assert not connector.can_define_transaction_boundaries({})
    assert connector.can_define_transaction_boundaries({"support": "SUPPORTED"})


def test_a_connector_checks_altered_offsets(connector: HostedConnector) -> None:
    assert connector.alter_source_offsets({}, [({"p": "p"}, {"n": 3})])
    assert connector.alter_source_offsets({}, [({"p": "p"}, None)])
    assert not connector.alter_source_offsets({}, [])
    with pytest.raises(JavaError, match=r"no such place: \{\{p=p\}=\{n=3\}\}"):
        connector.alter_source_offsets({"refuses": "yes"}, [({"p": "p"}, {"n": 3})])


def test_file_source_refuses_invalid_offsets(host: JavaHost, context: Context) -> None:
    connector = host.connector(file_class("FileStreamSourceConnector"), "made", context)
    config = {"file": "in", "topic": "t"}
    assert connector.alter_source_offsets(config, [({"filename": "in"}, {"position": 3})])
    with pytest.raises(JavaError, match="should be a non-negative value"):
        connector.alter_source_offsets(config, [({"filename": "in"}, {"position": -3})])
    connector.close()


def test_a_sink_checks_altered_offsets(host: JavaHost, context: Context) -> None:
    connector = host.connector(file_class("FileStreamSinkConnector"), "made", context)
    assert connector.alter_sink_offsets({"file": "out"}, {TopicPartition("t", 0): 3, TopicPartition("t", 1): None})
    connector.close()
