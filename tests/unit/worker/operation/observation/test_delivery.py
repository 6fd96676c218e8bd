"""Which connectors are exactly once, and why the others are not."""

import pytest

from fencepost.api import SinkConnector, SinkTask, SourceConnector, SourceTask
from fencepost.cluster.figures import Delivery
from fencepost.config.worker import WorkerConfig
from fencepost.worker.operation.observation import figures as module
from fencepost.worker.operation.observation.figures import delivery_of

NEEDED = ("group.id", "config.storage.topic", "offset.storage.topic", "status.storage.topic")
CONVERTERS = {"key.converter": "JsonConverter", "value.converter": "JsonConverter"}
LINES = {"connector.class": "FileStreamSource", "file": "/f", "topic": "t"}


def worker(**more: str) -> WorkerConfig:
    settings = {key.replace("_", "."): value for key, value in more.items()}
    return WorkerConfig({**dict.fromkeys(NEEDED, "x"), **CONVERTERS, **settings})


ENABLED = worker(exactly_once_source_support="enabled")


class Own(SourceConnector):
    task = SourceTask


class OwnSink(SinkConnector):
    task = SinkTask


def test_source_is_not_exactly_once_by_default_and_the_missing_line_is_shown() -> None:
    found = delivery_of(LINES, worker())
    assert found.exactly_once is False
    assert found.because == (
        "the workers' file has exactly.once.source.support=disabled, which is Kafka Connect's default"
    )
    assert found.remedy == "add exactly.once.source.support=enabled to the file of each worker"
    given = delivery_of(LINES, worker(exactly_once_source_support="preparing"))
    assert given.because == "the workers' file has exactly.once.source.support=preparing"


@pytest.mark.parametrize(
    ("config", "exactly_once"),
    [
        (LINES, True),
        ({"connector.class": "SpoolDirectorySource", "input.path": "/d", "input.format": "csv", "topic": "t"}, True),
        ({"connector.class": "FileStreamSink", "topics": "t", "file": "/f"}, False),
        ({"connector.class": "FilesSink", "topics": "t", "path": "/d"}, True),
        ({"connector.class": "TopicSql", "topics": "t", "output.topic": "u"}, True),
        ({"connector.class": "TopicTransform", "topics": "t", "output.topic": "u"}, True),
        ({"connector.class": "NotInstalled"}, None),
    ],
)
def test_built_in_connectors_declare_whether_they_are_exactly_once(
    config: dict[str, str], exactly_once: bool | None
) -> None:
    found = delivery_of(config, ENABLED)
    assert (found.exactly_once, found.because is None) == (exactly_once, exactly_once is True)
    if "topics" in config:
        assert delivery_of(config, worker()) == found  # the worker's setting is for sources


@pytest.mark.parametrize("own", [Own, OwnSink])
def test_exactly_once_is_unknown_when_a_connector_does_not_declare_it(
    monkeypatch: pytest.MonkeyPatch, own: type
) -> None:
    monkeypatch.setattr(module, "typical_class_of", lambda _: own)
    found = delivery_of({"connector.class": "Own", "topics": "t"}, ENABLED)
    assert found.exactly_once is None
    assert "its class does not say" in (found.because or "")


def test_java_source_is_not_queried_for_exactly_once_unless_required(monkeypatch: pytest.MonkeyPatch) -> None:
    """To ask takes a JVM; with the demand, validation has done so."""
    own = type("Java", (Own,), {"java": object(), "exactly_once_support": lambda _: pytest.fail("it was asked")})
    monkeypatch.setattr(module, "typical_class_of", lambda _: own)
    found = delivery_of({}, ENABLED)
    assert (found.exactly_once, found.remedy) == (
        None, "add exactly.once.support=required to its config: it is asked then"
    )  # fmt: skip
    assert delivery_of({"exactly.once.support": "Required"}, ENABLED) == Delivery(True)


def test_exactly_once_is_unknown_when_the_connectors_answer_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def exit(_: object) -> None:
        raise SystemExit

    monkeypatch.setattr(module, "typical_class_of", lambda _: type("Odd", (Own,), {"exactly_once_support": exit}))
    assert delivery_of({}, ENABLED).exactly_once is None
