"""Where a connector's producers write, and so where its offsets are."""

from collections.abc import Mapping
from typing import Any

import pytest

from fencepost.config import ConfigError
from fencepost.config.worker import WorkerConfig
from fencepost.kafka.admin.client import ClusterIds
from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.kafka.produce.producer import ProducerClient
from fencepost.storage import records
from fencepost.storage.change import TaskId
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.worker.plan import Client
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervision.task.handle import StartIdentity, TaskHandle
from fencepost.worker.supervision.task.specs import task_spec
from support.memory_topic import MemoryTopic
from support.settings import SETTINGS

WORKER = {**SETTINGS, "bootstrap.servers": "k1:9092,k2:9092"}
CLUSTERS = {"k1:9092,k2:9092": "A", "alias:9092": "A", "k2:9092": "A", "far:9092": "B"}
OVERRIDE = "producer.override.bootstrap.servers"


class Asked(ClusterIds):
    def __init__(self) -> None:
        self.servers: list[str] = []
        super().__init__(self._answer)

    def _answer(self, conf: Mapping[str, Any]) -> str:
        servers = conf["bootstrap.servers"]
        self.servers.append(servers)
        if servers not in CLUSTERS:
            raise KafkaUnavailableError(servers)
        return CLUSTERS[servers]


def settings_of(**more: str) -> tuple[WorkerSettings, Asked]:
    asked = Asked()
    properties = {**WORKER, **{key.replace("_", "."): value for key, value in more.items()}}
    return WorkerSettings(WorkerConfig(properties), "http://w:1", "me", asked), asked


@pytest.mark.parametrize("servers", ["k2:9092", "alias:9092"])
def test_other_spelling_of_the_brokers_is_recognized_as_the_workers_cluster(servers: str) -> None:
    """Else the copies for the worker's topic would go to the very topic that the transactions write to."""
    settings, _ = settings_of()
    assert not settings.has_own_offsets(settings.plan({OVERRIDE: servers}))
    assert settings.own_offsets(settings.plan({OVERRIDE: servers})) is None


@pytest.mark.parametrize("config", [{}, {OVERRIDE: None}, {OVERRIDE: "k2:9092, k1:9092"}])
def test_no_cluster_id_is_requested_when_the_brokers_are_the_same(config: dict[str, str | None]) -> None:
    settings, asked = settings_of()
    assert not settings.has_own_offsets(settings.plan(config))
    assert asked.servers == []


def test_connector_on_another_cluster_has_an_offsets_topic_there() -> None:
    settings, asked = settings_of()
    for _ in range(3):
        own = settings.own_offsets(settings.plan({OVERRIDE: "far:9092"}))
        assert own is not None
        assert (own.name, own.conf["bootstrap.servers"]) == (SETTINGS["offset.storage.topic"], "far:9092")
    assert sorted(asked.servers) == ["far:9092", "k1:9092,k2:9092"]


def test_named_offsets_topic_is_the_connectors_own_on_any_cluster() -> None:
    settings, asked = settings_of()
    assert settings.has_own_offsets(settings.plan({"offsets.storage.topic": "mine"}))
    assert asked.servers == []


def test_cluster_id_is_requested_again_when_the_cluster_did_not_answer() -> None:
    settings, asked = settings_of()
    for _ in range(2):
        with pytest.raises(KafkaUnavailableError):
            settings.has_own_offsets(settings.plan({OVERRIDE: "gone:9092"}))
    assert asked.servers == ["gone:9092"] * 2


def test_offsets_are_read_from_the_brokers_of_the_workers_producer_settings() -> None:
    """Committed there, and looked for elsewhere, they would never be found: each start would send all again."""
    settings, _ = settings_of(producer_bootstrap_servers="far:9092", consumer_bootstrap_servers="k1:9092")
    own = settings.own_offsets(settings.plan({}))
    assert own is not None
    assert own.conf["bootstrap.servers"] == "far:9092"
    assert settings.plan({}).clients.conf(Client.TASK_ADMIN)["bootstrap.servers"] == "far:9092"
    assert settings.plan({}).clients.conf(Client.TASK_PRODUCER)["bootstrap.servers"] == "far:9092"
    assert settings.own_offsets(settings.plan({OVERRIDE: "alias:9092"})) is None


def test_overrides_decide_on_which_brokers_own_topics_are_read_and_created() -> None:
    settings, _ = settings_of()
    config = {
        "offsets.storage.topic": "mine",
        "consumer.override.bootstrap.servers": "c:1",
        "admin.override.bootstrap.servers": "a:1",
    }
    assert settings.plan(config).clients.conf(Client.TASK_READER)["bootstrap.servers"] == "c:1"
    assert settings.plan(config).clients.conf(Client.TASK_ADMIN)["bootstrap.servers"] == "a:1"


@pytest.mark.parametrize(
    ("shared", "own", "expected_ms"),
    [
        ({}, {}, 30_000),
        ({"offset.flush.interval.ms": "10000"}, {}, 10_000),
        ({}, {"producer.override.transaction.timeout.ms": "300000"}, 60_000),
        ({"offset.flush.interval.ms": "600000", "producer.transaction.timeout.ms": "300000"}, {}, 150_000),
        ({}, {"transaction.boundary.interval.ms": "59000"}, 59_000),
    ],
)
def test_default_commit_interval_is_half_of_the_transaction_timeout(
    shared: dict[str, str], own: dict[str, str], expected_ms: int
) -> None:
    """`offset.flush.interval.ms` and `transaction.timeout.ms` are equal by default: no commit would come in time."""
    settings, _ = settings_of(**shared, exactly_once_source_support="enabled")
    config = {"name": "c", "connector.class": "FileStreamSource", "transaction.boundary": "interval", **own}
    snapshot = ClusterSnapshot(connectors={"c": config})
    spec = task_spec(settings, snapshot, TaskHandle(StartIdentity(TaskId("c", 0), 1, "i"), "STARTED"))
    assert spec.commits.boundary_interval_ms == expected_ms


@pytest.mark.parametrize("mode", ["disabled", "preparing", "enabled"])
def test_settings_for_fencing_are_valid_for_transactions_in_every_mode(mode: str) -> None:
    """A leader without exactly-once fences for workers that have it, with time-outs that a transaction refuses."""
    settings, _ = settings_of(**{"exactly.once.source.support": mode, "producer_delivery_timeout_ms": "120000"})
    conf = settings.plan({"producer.override.delivery.timeout.ms": "180000"}).clients.conf(Client.FENCING)
    ProducerClient({**conf, "transactional.id": "g-c-0"}).drop()  # raises for settings that are at odds


def test_unknown_client_key_in_the_workers_file_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    settings, _ = settings_of(ssl_provider="SunJSSE")
    for conf in (settings.reader_conf, settings.admin_conf, settings.producer_conf, settings.leader_conf):
        conf()
    settings.plan({}).clients.conf(Client.TASK_PRODUCER)
    assert ["ssl.provider" in record.getMessage() for record in caplog.records] == [True]


READ = "consumer.override.bootstrap.servers"
CLOSED = tuple(SETTINGS[f"{kind}.storage.topic"] for kind in ("config", "offset", "status"))
SOURCE_CONFIG = {"name": "c", "connector.class": "FileStreamSource", "file": "/f", "topic": "t"}
SINK_CONFIG = {"name": "c", "connector.class": "FileStreamSink", "file": "/f", "topics": "t"}


def spec_of(config: dict[str, str], *, is_sink: bool) -> TaskSpec:
    settings, _ = settings_of()
    snapshot = MemoryTopic().write(records.connector_config("c", config))
    return task_spec(settings, snapshot, TaskHandle(StartIdentity(TaskId("c", 0), 1, "i", is_sink=is_sink), "STARTED"))


@pytest.mark.parametrize(("servers", "closed"), [(None, CLOSED), ("alias:9092", CLOSED), ("far:9092", ())])
def test_workers_topics_are_closed_to_a_task_on_the_workers_cluster(
    servers: str | None, closed: tuple[str, ...]
) -> None:
    source, sink = (
        {} if servers is None else {key: servers, key.replace("bootstrap.servers", "security.protocol"): "PLAINTEXT"}
        for key in (OVERRIDE, READ)
    )
    assert spec_of({**SOURCE_CONFIG, **source}, is_sink=False).look_up.closed.writes == closed
    assert spec_of({**SINK_CONFIG, **sink}, is_sink=True).look_up.closed.reads == closed


@pytest.mark.parametrize("servers", ["k2:9092", "alias:9092"])
@pytest.mark.parametrize("topic", [CLOSED[0], "__consumer_offsets"])
def test_start_is_refused_when_a_stored_config_names_a_closed_topic(servers: str, topic: str) -> None:
    for config, key in ((SOURCE_CONFIG, "topic"), (SOURCE_CONFIG, "offsets.storage.topic"), (SINK_CONFIG, "topics")):
        own = {key: topic, (OVERRIDE if config is SOURCE_CONFIG else READ): servers}
        with pytest.raises(ConfigError, match=f"Invalid value {topic} for configuration {key}"):
            spec_of({**config, **own}, is_sink=config is SINK_CONFIG)
    assert spec_of({**SOURCE_CONFIG, "topic": topic, OVERRIDE: "far:9092"}, is_sink=False).look_up.closed.writes == ()
