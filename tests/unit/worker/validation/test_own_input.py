"""A stream of which it is known that it would read what it writes is refused before it is created."""

from typing import Any

import pytest

from fencepost.config.worker import WorkerConfig
from fencepost.plugin import PluginRegistry
from fencepost.worker.validation.validation import validate_connector
from support.settings import SETTINGS

WORKER = WorkerConfig({**SETTINGS, "bootstrap.servers": "b:9"})


def faults(**settings: str) -> list[str]:
    given = {"name": "c", "connector.class": "TopicTransform"}
    given |= {key.replace("__", "."): value for key, value in settings.items()}
    report = validate_connector(given, plugins=PluginRegistry(), worker=WORKER)
    return [text for one in report.configs for text in one.value.errors]


def router(side: str, regex: str, replacement: str, **more: str) -> dict[str, str]:
    key = f"{side}transforms"
    found = {"": "r", ".r.type": "RegexRouter", ".r.regex": regex, ".r.replacement": replacement}
    return {f"{key}{name}": value for name, value in found.items()} | {f"{key}.r.{k}": v for k, v in more.items()}


DATED = {"output.transforms": "t", "output.transforms.t.type": "TimestampRouter"}
INSERT = {"transforms": "i", "transforms.i.type": "InsertField$Value"}
INSERT |= {"transforms.i.static.field": "f", "transforms.i.static.value": "v"}
SQL = {"connector.class": "TopicSql"}


@pytest.mark.parametrize(
    "settings",
    [
        {"topics": "a,b", "output.topic": "b"},
        {"topics": "a", "output.topic": "${topic}"},
        {"topics.regex": "a.*", "output.topic": "${topic}"},
        {"topics": "a,a-out", "output.topic": "${topic}-out"},
        {"topics.regex": "a.*", "output.topic": "ab"},
        {"topics.regex": "orders.*", "output.topic": "${topic}-flat"},
        {"topics.regex": "(eu|us)[.]orders[0-9]*", "output.topic": "us.orders"},
        {"topics.regex": ".*", "output.topic": "out"},
        {"topics.regex": ".*-in", "output.topic": "copy-of-${topic}"},
        {"topics.regex": "\\\\Qa.\\\\E\\\\w+".replace("\\\\", "\\"), "output.topic": "a.b"},
        {"topics": "a", "output.topic": "${topic}", **INSERT},
        {"topics": "a", "output.topic": "${topic}", **{f"output.{key}": value for key, value in INSERT.items()}},
        {"topics": "a,b", "output.topic": "${topic}", **router("output.", "a", "b")},
        {"topics": "a,b", "output.topic": "${topic}", **router("", "a", "b")},
        {"topics": "a,b", "output.topic": "${topic}", **router("output.", "nothing", "x")},
        {"topics.regex": "a.*", "output.topic": "out", **router("output.", "out", "a-out")},
        {"topics": "a", "output.topic": "a", **SQL},
        {"topics.regex": "a.*", "output.topic": "abc", **SQL},
        {"topics": "a", "output.topic": "again", "errors.deadletterqueue.resend.topic.name": "again",
         "errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead",
         "errors.deadletterqueue.context.headers.enable": "true"},
    ],
    ids=str,
)  # fmt: skip
def test_output_topic_that_is_an_input_topic_is_refused(settings: dict[str, Any]) -> None:
    [text] = faults(**settings)
    assert "read them again, forever" in text


@pytest.mark.parametrize(
    "settings",
    [
        {"topics": "a,b", "output.topic": "c"},
        {"topics": "a", "output.topic": "${topic}-out"},
        {"topics.regex": "orders-[a-z]+", "output.topic": "${topic}-flat"},
        {"topics.regex": "(?!.*-flat)orders.*", "output.topic": "${topic}-flat"},
        {"topics": "a", "output.topic": "${topic}", **router("output.", "(.*)", "$1-out")},
        {"topics": "a,b", "output.topic": "${topic}", **router("", "(.*)", "to-$1")},
        {"topics": "a", "output.topic": "a", **router("output.", "a", "b")},
        {"topics": "a", "output.topic": "${topic}", **DATED},
        {"topics": "a", "output.topic.field": "to"},
        {"topics": "a", "output.topic": "b", **SQL},
        {"topics.regex": "a[0-9]", "output.topic": "a", **SQL},
    ],
    ids=str,
)
def test_output_to_another_cluster_or_known_only_from_records_is_accepted(settings: dict[str, Any]) -> None:
    assert faults(**settings) == []


@pytest.mark.parametrize("name", ["dead", "again"])
def test_sink_that_would_read_its_own_dead_letters_is_refused(name: str) -> None:
    letters = {"errors.tolerance": "all", "errors.deadletterqueue.context.headers.enable": "true"}
    letters |= {"errors.deadletterqueue.topic.name": "dead", "errors.deadletterqueue.resend.topic.name": "again"}
    for own in ({"connector.class": "FileStreamSink", "file": "f"}, {"output.topic": "out"}):
        assert len(faults(**{"topics.regex": f"{name}.*"}, **letters, **own)) == 1
        assert len(faults(topics=f"a,{name}", **letters, **own)) == 1
