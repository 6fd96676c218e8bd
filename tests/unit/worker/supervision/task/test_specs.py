"""The spec of a task whose configs refer to config providers: what travels, and what an executor makes of it."""

import json
from collections.abc import Mapping, Set
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from fencepost.api import ConfigData
from fencepost.builtin.connector.generator import VerifiableSourceConnector
from fencepost.builtin.provider.local import EnvVarConfigProvider
from fencepost.config import ConfigError
from fencepost.config.worker import WorkerConfig
from fencepost.kafka.admin.client import ClusterIds
from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.plugin import PluginRegistry, registry, use_registry
from fencepost.plugin.directory import public_name
from fencepost.storage import records
from fencepost.storage.change import Assignment, TaskId, WorkerAssignment
from fencepost.task.channel.task_spec import RunSpec, TaskSpec
from fencepost.task.start.runner import resolved
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervision.task.handle import StartIdentity, TaskHandle
from fencepost.worker.supervision.task.specs import task_spec
from support.memory_topic import MemoryTopic
from support.settings import SETTINGS

JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
CANARY = "canary-of-specs"
SOURCE = {"name": "c", "connector.class": "FileStreamSource", "file": "f", "topic": "${env:SPEC_TOPIC}"}
SINK = {"name": "c", "connector.class": "FileStreamSink", "file": "f", "topics": "${env:SPEC_TOPIC}"}
STREAM = {"name": "c", "connector.class": "TopicTransform", "topics": "in", "topic": "${env:SPEC_TOPIC}"}
EPOCHS = {"name": "c", "connector.class": "FilesSink", "topics": "in", "path": "/p", "format": "${env:SPEC_TOPIC}"}


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkerSettings:
    monkeypatch.setenv("SPEC_TOPIC", "looked-up")
    monkeypatch.setenv("SPEC_JAAS", f'{JAAS} username="u" password="{CANARY}";')
    monkeypatch.setenv("SPEC_PEM", CANARY)
    declared = {
        "config.providers": "env",
        "config.providers.env.class": "EnvVarConfigProvider",
        "exactly.once.source.support": "enabled",
        "producer.ssl.key.password": "the-workers-own",
    }
    return WorkerSettings(WorkerConfig({**SETTINGS, **declared}), "http://w:1", "me")


def spec_of(settings: WorkerSettings, config: dict[str, str], task_config: dict[str, str]) -> TaskSpec:
    task = TaskId("c", 0)
    snapshot = MemoryTopic().write(
        records.connector_config("c", config),
        records.task_config(task, task_config),
        records.tasks_commit("c", 1),
        records.assignment(Assignment(1, (WorkerAssignment("me", "http://w:1", ("c",), (task,)),))),
    )
    is_sink = "topics" in config
    handle = TaskHandle(StartIdentity(task, snapshot.commit_offsets["c"], "i", is_sink=is_sink), "STARTED")
    return task_spec(settings, snapshot, handle)


class Whole(VerifiableSourceConnector):
    defines_transactions = True


@pytest.mark.parametrize("boundary", [None, "poll", "connector"])
def test_task_defines_its_transactions_if_its_class_says_so(settings: WorkerSettings, boundary: str | None) -> None:
    config = {"name": "c", "connector.class": public_name(Whole)} | (
        {} if boundary is None else {"transaction.boundary": boundary}
    )
    before = registry()
    use_registry(PluginRegistry(connectors=[Whole]))
    try:
        assert spec_of(settings, config, {}).commits.boundary == "connector"
    finally:
        use_registry(before)
    assert spec_of(settings, SOURCE, {}).commits.boundary == "poll"


@pytest.mark.parametrize("config", [SOURCE, SINK, STREAM, EPOCHS], ids=lambda config: config["connector.class"])
def test_sent_spec_has_no_secret_values_and_is_resolved_again_by_the_executor(
    settings: WorkerSettings, config: dict[str, str]
) -> None:
    clients = {f"{kind}.override.sasl.jaas.config": "${env:SPEC_JAAS}" for kind in ("producer", "consumer", "admin")}
    secured = {f"{kind}.override.security.protocol": "SASL_PLAINTEXT" for kind in ("producer", "consumer", "admin")}
    letters = {"errors.deadletterqueue.topic.name": "letters"} if "topics" in config else {}
    more = {"value.converter": "StringConverter", "transforms.x.secret": "a ${env:SPEC_PEM} b"}
    spec = spec_of(settings, {**config, **clients, **secured, **letters, **more}, {"own": "${env:SPEC_PEM}", "n": "1"})
    assert spec.task_config == {"own": CANARY, "n": "1"}
    assert spec.connector_config["transforms.x.secret"] == f"a {CANARY} b"

    text = json.dumps(spec.unresolved().to_json())
    assert CANARY not in text
    assert "${env:SPEC_JAAS}" in text

    travelled = TaskSpec.from_json(json.loads(text))
    assert (travelled.is_sink, travelled.is_stream, travelled.id) == (spec.is_sink, spec.is_stream, spec.id)
    found = resolved(travelled)
    assert found.to_json() == json.loads(json.dumps(spec.to_json()))
    assert CANARY in json.dumps(found.to_json())
    assert CANARY not in repr(found)


def test_executor_looks_up_the_current_values(settings: WorkerSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    travelled = spec_of(settings, SOURCE, {"topic": "${env:SPEC_TOPIC}"}).unresolved()
    monkeypatch.setenv("SPEC_TOPIC", "rotated")
    assert resolved(travelled).connector_config["topic"] == "rotated"
    monkeypatch.delenv("SPEC_TOPIC")
    with pytest.raises(ConfigError, match=r"topic: \$\{env:SPEC_TOPIC\} cannot be looked up: there is no SPEC_TOPIC"):
        resolved(travelled)


def test_value_that_both_configs_refer_to_is_looked_up_once_per_start(
    settings: WorkerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    get = EnvVarConfigProvider.get

    def counted(self: EnvVarConfigProvider, path: str, keys: Set[str]) -> ConfigData:
        asked.append(sorted(keys))
        return get(self, path, keys)

    monkeypatch.setattr(EnvVarConfigProvider, "get", counted)
    spec = spec_of(settings, SOURCE, {"topic": "${env:SPEC_TOPIC}"})
    assert spec.task_config == {"topic": "looked-up"}
    assert asked == [["SPEC_TOPIC"]]


def test_spec_without_references_is_sent_unchanged(settings: WorkerSettings) -> None:
    spec = spec_of(settings, {**SOURCE, "topic": "t"}, {"topic": "t"})
    assert spec.look_up.references is None
    assert spec.unresolved() is spec
    assert resolved(spec) is spec


def test_spec_says_how_the_connector_has_its_tasks_run(settings: WorkerSettings) -> None:
    own = {"slot.dedicated": "true", "progress.timeout.ms": "7", "progress.timeout.action": "FAIL"}
    assert spec_of(settings, {**SOURCE, **own}, {"topic": "t"}).run == RunSpec(True, 7, True)
    assert spec_of(settings, SINK, {"topics": "t"}).run == RunSpec(False, 20_000, False)


def test_values_inherited_from_the_worker_are_not_looked_up_again(settings: WorkerSettings) -> None:
    settings.config.originals["value.converter.password"] = "${no:reference}"  # a value that was looked up at the start
    spec = spec_of(settings, SOURCE, {})
    assert spec.connector_config["value.converter.password"] == "${no:reference}"
    assert resolved(spec.unresolved()).connector_config["value.converter.password"] == "${no:reference}"


_INHERITED = {
    "value.converter.basic.auth.user.info": "worker:password",
    "value.converter.schema.registry.url": "https://r",
}
_EVIL = {
    "value.converter.proxy.host": "evil.example", "output.value.converter.proxy.host": "evil.example",
    "value.converter.schema.registry.ssl.truststore.location": "/evil.pem", "value.converter.plugin.version": "[1,)",
}  # fmt: skip


def test_settings_of_the_workers_converter_are_those_of_the_workers_file(settings: WorkerSettings) -> None:
    settings.config.originals.update(_INHERITED)
    found = settings.plan({**SOURCE, **_EVIL, "key.converter.schemas.enable": "false"}).effective
    below = {key: value for key, value in found.items() if ".converter." in key}
    assert below == {
        **_INHERITED, "value.converter.plugin.version": "[1,)", "key.converter.schemas.enable": "false",
    }  # fmt: skip


def test_converter_that_the_connector_names_has_the_settings_of_the_connector(settings: WorkerSettings) -> None:
    settings.config.originals.update(_INHERITED)
    named = {**SOURCE, **_EVIL, "value.converter": "StringConverter"}
    below = {key: value for key, value in settings.plan(named).effective.items() if ".converter." in key}
    assert below == _EVIL


@pytest.mark.parametrize(("source_id", "is_refused"), [("workers", True), ("another", False)])
def test_mirror_of_the_workers_cluster_reads_none_of_the_workers_topics(
    settings: WorkerSettings, source_id: str, is_refused: bool
) -> None:
    ids = {"localhost:9092": "workers", "source:9092": source_id}
    settings = replace(settings, cluster_ids=ClusterIds(lambda conf: ids.get(conf["bootstrap.servers"], "target")))
    mirror = {
        "name": "c", "connector.class": "MirrorSourceConnector", "source.cluster.alias": "a",
        "target.cluster.alias": "b", "source.cluster.bootstrap.servers": "source:9092",
        "target.cluster.bootstrap.servers": "elsewhere:9092", "producer.override.bootstrap.servers": "elsewhere:9092",
    }  # fmt: skip
    spec_of(settings, mirror, {**mirror, "task.assigned.partitions": "orders-0,orders-1"})
    closed = {**mirror, "task.assigned.partitions": "orders-0,connect-configs-0,__consumer_offsets-7"}
    if not is_refused:
        assert spec_of(settings, mirror, closed).task_config["task.assigned.partitions"]
        return
    with pytest.raises(ConfigError, match=r"__consumer_offsets, connect-configs\. Add it to topics\.exclude"):
        spec_of(settings, mirror, closed)


def test_topic_name_that_is_a_pattern_is_refused_after_its_look_up(
    settings: WorkerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's client takes a name that begins with ^ for a pattern."""
    monkeypatch.setenv("SPEC_TOPIC", "^connect-configs")
    for config in (SINK, {**STREAM, "topics": "in,${env:SPEC_TOPIC}"}, {**EPOCHS, "topics": "^connect-configs"}):
        with pytest.raises(ConfigError, match="for configuration topics: a topic name may only hold"):
            spec_of(settings, config, {})


LETTERS = {"errors.deadletterqueue.topic.name": "letters"}


@pytest.mark.parametrize(
    ("config", "asked"),
    [
        ({**SINK, "producer.override.bootstrap.servers": "away:9"}, False),
        ({**SINK, **LETTERS, "producer.override.bootstrap.servers": "away:9"}, True),
        ({**SINK, "consumer.override.bootstrap.servers": "away:9"}, True),
        ({**STREAM, "producer.override.bootstrap.servers": "away:9"}, True),
        ({**SOURCE, "consumer.override.bootstrap.servers": "away:9"}, False),
    ],
)
def test_id_of_a_cluster_is_not_requested_when_a_task_does_not_use_the_cluster(
    settings: WorkerSettings, config: dict[str, str], asked: bool
) -> None:
    def ask(conf: Mapping[str, str]) -> str:
        if conf["bootstrap.servers"] == "away:9":
            raise KafkaUnavailableError("away:9 does not answer")
        return "workers"

    settings = replace(settings, cluster_ids=ClusterIds(ask))
    with pytest.raises(KafkaUnavailableError) if asked else nullcontext():
        assert spec_of(settings, config, {}).connector == "c"


def test_topic_of_the_workers_is_closed_when_a_host_joins_their_cluster_later(settings: WorkerSettings) -> None:
    ids = {"localhost:9092": "workers", "moves:9": "another"}
    settings = replace(settings, cluster_ids=ClusterIds(lambda conf: ids[conf["bootstrap.servers"]]))
    config = {**SINK, "topics": "connect-configs", "consumer.override.bootstrap.servers": "moves:9"}
    assert not spec_of(settings, config, {}).look_up.closed.reads
    ids["moves:9"] = "workers"
    with pytest.raises(ConfigError, match="Invalid value connect-configs for configuration topics"):
        spec_of(settings, config, {})
