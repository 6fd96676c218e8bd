"""MirrorMaker 2 files: which flows they contain, and the settings of each."""

from pathlib import Path

import pytest

from fencepost.builtin.mirror.dedicated import Flow, MirrorFile
from fencepost.builtin.mirror.setting.clients import FlowEnd, client_properties
from fencepost.builtin.mirror.sink import MirrorSinkConnector
from fencepost.builtin.mirror.source.connector import MirrorSourceConnector
from fencepost.config import ConfigError
from fencepost.config.file import parse_properties
from fencepost.config.worker import WorkerConfig
from fencepost.kafka.setting.table import ClientKind
from fencepost.plugin import PluginKind, PluginRegistry
from fencepost.worker.plan import known

GIVEN = """
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:2
A->B.enabled = true
emit.heartbeats.enabled = false
"""


def file(text: str = "", given: str = GIVEN) -> MirrorFile:
    return MirrorFile(parse_properties(given + text))


def flow(text: str = "") -> Flow:
    (only,) = file(text).flows()
    return only


def source(text: str = "") -> dict[str, str]:
    return flow(text).connectors()["MirrorSourceConnector"]


def test_flow_uses_the_names_of_mirrormaker() -> None:
    found = flow()
    assert (found.name, found.record_connector) == ("A->B", "MirrorSourceConnector")
    worker = WorkerConfig(found.worker_properties())
    assert worker.bootstrap_servers == ["b:2"]
    assert worker.group_id == "A-mm2"
    assert worker.offset_storage_topic == "mm2-offsets.A.internal"
    assert worker.status_storage_topic == "mm2-status.A.internal"
    assert worker.config_storage_topic == "mm2-configs.A.internal"
    converters = {worker.key_converter, worker.value_converter, worker.header_converter}
    assert converters == {"org.apache.kafka.connect.converters.ByteArrayConverter"}
    connector = MirrorSourceConnector(source())
    assert (connector.source_servers, connector.target_servers) == (["a:1"], ["b:2"])
    assert (connector.flow, connector.is_enabled) == ("A->B", True)


def test_config_providers_resolve_the_references_of_a_mirror_file(tmp_path: Path) -> None:
    (tmp_path / "servers").write_text("z:9")
    path = tmp_path / "mm2.properties"
    providers = "config.providers = d\nconfig.providers.d.class = DirectoryConfigProvider\n"
    path.write_text(f"{GIVEN}{providers}A.bootstrap.servers = ${{d:{tmp_path}:servers}}\n")
    found = MirrorFile.load(path)
    assert found.unknown_keys() == []
    (only,) = found.flows()
    assert only.source_cluster["bootstrap.servers"] == "z:9"
    connector, worker = only.connectors()["MirrorSourceConnector"], only.worker_properties()
    assert connector["source.cluster.bootstrap.servers"] == f"${{d:{tmp_path}:servers}}"  # Kafka does not see the value
    assert not [key for key in connector if key.startswith("config.providers")]
    assert known(WorkerConfig(worker), connector)["source.cluster.bootstrap.servers"] == "z:9"


def test_unprefixed_keys_configure_connectors_unless_the_flow_overrides_them() -> None:
    text = "topics = every.*\ntasks.max = 5\nreplication.policy.separator = _\nA->B.topics = orders\n"
    found = source(text)
    assert (found["topics"], found["tasks.max"], found["replication.policy.separator"]) == ("orders", "5", "_")
    assert "connector.type" not in found


def test_clients_get_the_settings_of_their_cluster_and_of_the_flow() -> None:
    found = source(
        "security.protocol = SSL\nA.security.protocol = SASL_SSL\nA.consumer.isolation.level = read_committed\n"
        "A.consumer.fetch.min.bytes = 1\nA->B.consumer.fetch.max.bytes = 7\nB.producer.linger.ms = 3\n"
        "A->B.source.consumer.fetch.min.bytes = 2\n"
    )
    told = client_properties(found, FlowEnd.SOURCE, ClientKind.CONSUMER)
    assert told == {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_SSL",
        "isolation.level": "read_committed",
        "fetch.min.bytes": "2",
        "fetch.max.bytes": "7",
    }
    told = client_properties(found, FlowEnd.TARGET, ClientKind.PRODUCER)
    assert told == {"bootstrap.servers": "b:2", "security.protocol": "SSL", "linger.ms": "3"}


def test_worker_gets_the_settings_of_its_target_and_unprefixed_worker_keys() -> None:
    worker = flow(
        "B.exactly.once.source.support = enabled\nB.offset.storage.topic = of-b\noffset.storage.topic = alone\n"
        "B.producer.linger.ms = 3\nA.group.id = wrong\ngroup.id = wrong\nslots.max = 3\nspark.master = local[2]\n"
        "B.offset.flush.interval.ms = 5\nA->B.offset.flush.interval.ms = 6\nA->B.producer.linger.ms = 9\n"
    ).worker_properties()
    assert worker["exactly.once.source.support"] == "enabled"
    assert worker["offset.storage.topic"] == "alone"
    assert worker["producer.linger.ms"] == "3"
    assert worker["group.id"] == "A-mm2"
    assert (worker["slots.max"], worker["spark.master"]) == ("3", "local[2]")
    assert worker["offset.flush.interval.ms"] == "6"


def test_connectors_may_read_only_the_tls_files_named_in_the_mirror_file() -> None:
    text = "A.ssl.truststore.location = /tls/a.pem\nssl.keystore.location = /tls/own.p12\n"
    assert WorkerConfig(flow(text).worker_properties()).override_allowed_paths == ["/tls/a.pem", "/tls/own.p12"]
    assert WorkerConfig(flow().worker_properties()).override_allowed_paths == []
    own = "connector.client.config.override.allowed.paths = /elsewhere\n"
    assert WorkerConfig(flow(text + own).worker_properties()).override_allowed_paths == ["/elsewhere"]


def test_spark_jvm_is_small_unless_the_file_sets_its_options() -> None:
    key = "spark.driver.extraJavaOptions"
    assert flow().worker_properties()[key] == "-XX:TieredStopAtLevel=1"
    assert flow(f"{key} = -Xms1g\n").worker_properties()[key] == "-Xms1g"


def test_flow_of_the_sink_type_has_a_connector_named_after_the_flow() -> None:
    found = flow("A->B.connector.type = sink\nA->B.transaction.producer = true\n")
    assert (found.record_connector, found.rival) == ("MirrorSinkConnector-A->B", "MirrorSourceConnector")
    connector = MirrorSinkConnector(found.connectors()[found.record_connector])
    assert connector.is_transactional
    assert found.worker_properties()["exactly.once.source.support"] == "enabled"
    assert {config["offset-syncs.topic.location"] for config in found.connectors().values()} == {"target"}
    assert flow("connector.type = sink\n").worker_properties()["exactly.once.source.support"] == "disabled"


def test_alias_that_is_a_prefix_of_another_alias_is_distinguished() -> None:
    given = """
    clusters = us, us.east
    us.bootstrap.servers = a:1
    us.east.bootstrap.servers = b:2
    us->us.east.enabled = true
    emit.heartbeats.enabled = false
    """
    (only,) = file(given=given).flows()
    assert (only.source, only.target) == ("us", "us.east")
    assert only.worker_properties()["bootstrap.servers"] == "b:2"
    assert file(given=given).unknown_keys() == []


@pytest.mark.parametrize(
    ("text", "listeners"),
    [
        ("", ["http://127.0.0.1:0", "http://127.0.0.1:0"]),
        ("dedicated.mode.enable.internal.rest = true\n", ["http://:0", "http://:0"]),
        ("listeners = http://h:80\n", ["http://h:80", "http://h:81"]),
        ("listeners = http://h:0\n", ["http://h:0", "http://h:0"]),
        ("listeners = http://h:80\nB->A.listeners = http://x:80\n", ["http://h:80", "http://x:80"]),
    ],
)
def test_flows_that_share_a_listener_take_consecutive_ports(text: str, listeners: list[str]) -> None:
    found = file(f"B->A.enabled = true\n{text}").flows()
    assert [each.worker_properties(number)["listeners"] for number, each in enumerate(found)] == listeners


def test_both_directions_are_two_flows() -> None:
    assert [each.name for each in file("B->A.enabled = true\n").flows()] == ["A->B", "B->A"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A->C.enabled = true\n", r"Unknown flow in configuration A->C\.enabled: .*clusters=A,B"),
        ("A->A.enabled = true\n", r"Unknown flow in configuration A->A\.enabled"),
        ("A->B.enabled = maybe\n", r"A->B: Invalid value maybe for configuration enabled"),
        ("A->B.connector.type = drain\n", r"A->B: Invalid value drain for configuration connector\.type"),
        ("A->B.enabled = false\n", r"No flow is enabled: set A->B\.enabled=true"),
        ("clusters = A\n", r"Unknown flow in configuration A->B\.enabled"),
        ("clusters = A, B, A\n", r"configuration clusters: A occurs twice"),
        ("clusters =\n", r"configuration clusters"),
        ("A.bootstrap.servers =\n", r'Missing required configuration "A\.bootstrap\.servers"'),
    ],
)
def test_invalid_mirror_file_is_refused_with_the_faulty_key(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        file(text)


def test_a_file_without_clusters_is_refused() -> None:
    with pytest.raises(ConfigError, match='"clusters"'):
        MirrorFile({"A->B.enabled": "true"})


def enabled(flow: Flow) -> dict[str, bool]:
    return {name: config["enabled"] == "true" for name, config in flow.connectors().items()}


def test_heartbeats_go_against_an_enabled_flow_and_where_configured() -> None:
    third = "clusters = A, B, C\nC.bootstrap.servers = c:1\nemit.heartbeats.enabled = true\n"
    there, back = file(third).flows()
    assert (there.name, back.name) == ("A->B", "B->A")
    assert all(enabled(there).values())
    assert enabled(back) == {
        "MirrorSourceConnector": False,
        "MirrorCheckpointConnector": False,
        "MirrorHeartbeatConnector": True,
    }
    asked = file(f"{third}B->A.emit.heartbeats.enabled = false\nC->A.emit.heartbeats.enabled = true\n").flows()
    assert [each.name for each in asked] == ["A->B", "C->A"]


@pytest.mark.parametrize("key", ["emit.checkpoints.enabled", "emit.offset-syncs.enabled"])
def test_flow_has_no_checkpoint_connector_when_checkpoints_are_disabled(key: str) -> None:
    assert enabled(flow(f"{key} = false\n")) == {
        "MirrorSourceConnector": True,
        "MirrorCheckpointConnector": False,
        "MirrorHeartbeatConnector": False,
    }


@pytest.mark.parametrize("kind", ["source", "sink"])
def test_generated_connector_configs_are_valid(kind: str) -> None:
    registry = PluginRegistry()
    for config in flow(f"connector.type = {kind}\n").connectors().values():
        registry.find(PluginKind.CONNECTOR, config["connector.class"])(config)


def test_a_cluster_that_no_flow_uses_needs_no_address() -> None:
    assert [each.name for each in file("clusters = A, B, C\n").flows()] == ["A->B"]


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("topcis", "topics"),
        ("A->B.topcis", "A->B.topics"),
        ("B.offset.flush.interval", "B.offset.flush.interval.ms"),
        ("producer.linger.ms", None),
        ("A.topics", None),
        ("group.id", None),
        ("nonsense", None),
    ],
)
def test_unknown_key_in_a_mirror_file_is_named(key: str, near: str | None) -> None:
    assert file(f"{key} = x\n").unknown_keys() == [(key, near)]


def test_keys_of_kafkas_mirror_files_are_known() -> None:
    text = """
    dedicated.mode.enable.internal.rest = true
    A.consumer.isolation.level = read_committed
    A.admin.request.timeout.ms = 9
    B.sasl.jaas.config = x
    ssl.truststore.location = /x
    A->B.groups = g.*
    A->B.sync.group.offsets.enabled = false
    A->B.transforms = t
    A->B.transforms.t.type = X
    A->B.producer.override.linger.ms = 5
    A->B.connector.type = source
    sync.topic.acls.enabled = false
    offset.storage.replication.factor = 1
    config.storage.replication.factor = 1
    errors.restart.enabled = true
    """
    assert file(text).unknown_keys() == []
