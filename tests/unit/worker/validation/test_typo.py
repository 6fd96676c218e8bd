"""Which keys of a config are reported as typos, and which are left alone."""

from typing import Any

import pytest

from fencepost.api import SinkConnector, SourceConnector, Transform, setting
from fencepost.config.worker import WorkerConfig
from fencepost.plugin import PluginKind
from fencepost.worker.plan import NO_EFFECT
from fencepost.worker.validation.validation import config_warnings
from support.plugins import OwnPlugins
from support.settings import SETTINGS

SOURCE = {"name": "c", "connector.class": "FileStreamSource", "file": "f", "topic": "t"}
SINK = {"name": "c", "connector.class": "FileStreamSink", "file": "f", "topics": "t"}
CAST = {"transforms": "cast", "transforms.cast.type": "Cast$Value", "transforms.cast.spec": "a:int32"}


class Theirs(SourceConnector):
    """A connector that reads more than it declares."""

    client_prefixes = ("far.producer.",)
    url: str = setting("feed.url1", default="")


class TheirSink(SinkConnector):
    target: str = setting("target", default="")


class TheirTransform(Transform):
    field: str = setting("field.name", default="")

    def apply(self, record: Any) -> Any:
        return record


PLUGINS = OwnPlugins(Theirs=Theirs, TheirSink=TheirSink, TheirTransform=TheirTransform)
THEIRS = {"name": "c", "connector.class": "Theirs"}


def warnings(config: dict[str, str], **of_worker: str) -> dict[str, str]:
    worker = WorkerConfig(SETTINGS | {"value.converter": "JsonConverter"} | of_worker)
    found = config_warnings(config, worker=worker, plugins=PLUGINS)
    return {one.name: one.message.removeprefix(f"{one.name}: ") for one in found}


@pytest.mark.parametrize(
    ("config", "key", "text"),
    [
        (SOURCE, "tasks.maxx", "nothing reads it; did you mean tasks.max?"),
        (SOURCE, "taks.max", "nothing reads it; did you mean tasks.max?"),
        (SOURCE, "tasks_max", "nothing reads it; did you mean tasks.max?"),
        (SOURCE, "tasksMax", "nothing reads it; did you mean tasks.max?"),
        (SOURCE, "value.convertor", "nothing reads it; did you mean value.converter?"),
        (SOURCE, "value.convertor.schemas.enable", "nothing reads it; did you mean value.converter.schemas.enable?"),
        (SOURCE, "errors.tolerence", "nothing reads it; did you mean errors.tolerance?"),
        (SOURCE, "error.tolerance", "nothing reads it; did you mean errors.tolerance?"),
        (SOURCE, "batch.sizes", "nothing reads it; did you mean batch.size?"),
        (SOURCE, "transform.x.type", "nothing reads it; did you mean transforms.x.type?"),
        (SOURCE, "predicate.x.type", "nothing reads it; did you mean predicates.x.type?"),
        (SOURCE, "producer.overide.acks", "nothing reads it; did you mean producer.override.acks?"),
        (SOURCE, "producer.acks", "nothing reads it; did you mean producer.override.acks?"),
        (SINK, "topics_regex", "nothing reads it; did you mean topics.regex?"),
        (SINK, "errors.deadletterqueue.topicname", "nothing reads it; did you mean errors.deadletterqueue.topic.name?"),
        (SOURCE, "connector.plugin.versions", "nothing reads it; did you mean connector.plugin.version?"),
        (CAST | SOURCE, "transforms.csat.spec", "there is no alias csat in 'transforms'"),
        (CAST | SOURCE, "transforms.casts.spec", "there is no alias casts in 'transforms'; did you mean cast?"),
        (CAST | SOURCE, "predicates.p.type", "there is no alias p in 'predicates'"),
        (CAST | SOURCE, "transforms.cast.specs", "Cast$Value does not read it; did you mean transforms.cast.spec?"),
        (CAST | SOURCE, "transforms.cast.whitelist", "Cast$Value does not read it"),
        (
            SOURCE | {"value.converter": "JsonConverter"},
            "value.converter.schema.enable",
            "JsonConverter does not read it; did you mean value.converter.schemas.enable?",
        ),
        (
            SOURCE,  # the worker's converter
            "value.converter.schema.enable",
            "JsonConverter does not read it; did you mean value.converter.schemas.enable?",
        ),
        (SOURCE, "topic.creation.big.partitions", "there is no group big in 'topic.creation.groups'"),
        (
            SOURCE,
            "topic.creation.default.partition",
            "it is not a setting of a group; did you mean topic.creation.default.partitions?",
        ),
        (THEIRS, "tasks.maxx", "nothing reads it; did you mean tasks.max?"),
        (THEIRS, "feed_url1", "nothing reads it; did you mean feed.url1?"),
        (
            THEIRS | {"transforms": "a", "transforms.a.type": "TheirTransform"},
            "transforms.a.fieldname",
            "TheirTransform does not read it; did you mean transforms.a.field.name?",
        ),
    ],
)
def test_a_key_that_looks_like_a_typo_is_named(config: dict[str, str], key: str, text: str) -> None:
    assert warnings(config | {key: "secret"}) == {key: text}


def test_setting_of_a_converter_that_the_workers_file_names_and_sets_is_named() -> None:
    config = SOURCE | {"value.converter.schemas.enabel": "false"}
    found = warnings(config, **{"value.converter.decimal.format": "NUMERIC"})
    assert found == {"value.converter.schemas.enabel": NO_EFFECT}


@pytest.mark.parametrize(
    ("config", "key"),
    [
        (SOURCE, "description"),
        (SOURCE, "owner.team"),
        (SOURCE, "errors.restart.enabled"),
        (SOURCE, "errors.deadletterqueue.topic.name"),
        (SOURCE, "producer.override.anything"),
        (SOURCE, "consumer.override.anything"),
        (SOURCE, "admin.override.anything"),
        (SOURCE, "topic.creation.default.retention.ms"),
        (SOURCE, "topic.creation.groups"),
        (SINK, "topic.creation.default.partitions"),
        (SOURCE, "value.converter.schema.registry.url"),
        (SOURCE, "value.converter.plugin.version"),
        (SOURCE, "key.converter.converter.type"),
        (SOURCE | {"transforms": "x", "transforms.x.type": "org.example.Unknown"}, "transforms.x.anything"),
        (SOURCE | CAST, "transforms.cast.plugin.version"),
        (SOURCE | CAST, "transforms.cast.negate"),
        (SOURCE | {"transforms": "${file:/aliases:of}"}, "transforms.a.type"),
        (SOURCE | {"topic.creation.groups": "${file:/groups:of}"}, "topic.creation.g.partitions"),
        (THEIRS, "far.producer.overide.acks"),
        (THEIRS, "producer.acks"),
        (THEIRS, "feed.url2"),
        (THEIRS, "topics"),
        (THEIRS | {"transforms": "a", "transforms.a.type": "TheirTransform"}, "transforms.a.unheard.of"),
        ({"name": "c", "connector.class": "TheirSink", "topics": "t"}, "topic"),
        ({"name": "c", "connector.class": "org.example.NotThere"}, "tasks.maxx"),
    ],
)
def test_key_that_a_class_may_read_is_not_named_as_a_typo(config: dict[str, str], key: str) -> None:
    assert warnings(config | {key: "x"}) == {}


def test_typo_in_a_key_of_a_streams_output_is_named_with_its_prefix() -> None:
    stream = {"name": "c", "connector.class": "TopicTransform", "topics": "t", "topic": "u"}
    stream |= {"output.transforms": "r", "output.transforms.r.type": "RegexRouter"}
    right = {"output.transforms.r.regex": "a", "output.transforms.r.replacement": "b"}
    right |= {"output.value.converter": "JsonConverter", "output.value.converter.schemas.enable": "false"}
    assert warnings(stream | right) == {}
    wrong = {"output.transforms.q.regex": "a", "output.transforms.r.replacment": "b", "output.value.convertor": "x"}
    assert warnings(stream | wrong) == {
        "output.transforms.q.regex": "there is no alias q in 'output.transforms'",
        "output.transforms.r.replacment": (
            "RegexRouter does not read it; did you mean output.transforms.r.replacement?"
        ),
        "output.value.convertor": "nothing reads it; did you mean output.value.converter?",
    }


MIRRORS = ("MirrorSourceConnector", "MirrorSinkConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector")


@pytest.mark.parametrize("name", MIRRORS)
def test_key_read_by_another_connector_of_a_mirror_file_is_not_named_as_a_typo(name: str) -> None:
    keys = {key for each in MIRRORS for key in PLUGINS.find(PluginKind.CONNECTOR, each).settings()}
    assert "emit.checkpoints.interval.seconds" in keys
    own = {"name": "c", "connector.class": name}
    assert warnings(own | dict.fromkeys(keys - own.keys(), "1")) == {}
    assert list(warnings(own | {"emit.checkpoint.enabled": "true"})) == ["emit.checkpoint.enabled"]
