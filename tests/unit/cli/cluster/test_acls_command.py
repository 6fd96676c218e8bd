"""`fencepost acls`: what it reads of files, and what it prints."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fencepost.cli.main import app
from fencepost.config import ConfigError

_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_FILE = f"""\
bootstrap.servers=k:9093
group.id=g
config.storage.topic=configs
offset.storage.topic=offsets
status.storage.topic=status
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
exactly.once.source.support=enabled
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config={_SCRAM} required username="worker" password="secret-w";
producer.sasl.jaas.config={_SCRAM} required username="producer" password="secret-p";
"""
_CONFIG = {"connector.class": "VerifiableSource", "tasks.max": 2, "topic": "data"}


@pytest.fixture
def worker(tmp_path: Path) -> Path:
    path = tmp_path / "worker.properties"
    path.write_text(_FILE)
    return path


def connector(directory: Path, config: object, **body: object) -> Path:
    path = directory / "connector.json"
    path.write_text(json.dumps({"name": "c", "config": config, **body}))
    return path


def printed(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["acls", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def rows(text: str) -> list[list[str]]:
    return [line.split()[:5] for line in text.splitlines() if line.startswith("User:")]


def test_acls_table_has_a_row_for_each_right(worker: Path, tmp_path: Path) -> None:
    found = rows(printed(worker, connector(tmp_path, _CONFIG)))
    assert ["User:worker", "group", "g", "Read", "required"] in found
    assert ["User:producer", "transactional-id", "g-c-1", "Write", "required"] in found
    assert ["User:producer", "transactional-id", "g-c-1#1", "Write", "optional"] in found
    assert ["User:producer", "topic", "data", "Describe", "implied"] in found


def test_acls_without_a_connector_lists_the_workers_rights(worker: Path) -> None:
    assert {row[0] for row in rows(printed(worker))} == {"User:worker"}


def test_acls_commands_contain_only_required_rights(worker: Path, tmp_path: Path) -> None:
    lines = printed(worker, connector(tmp_path, _CONFIG), "--commands").splitlines()
    commands = [line for line in lines if not line.startswith("#")]
    assert (
        "kafka-acls.sh --bootstrap-server k:9093 --command-config admin.properties --add "
        "--allow-principal User:worker --operation Read --operation Write --operation Create --topic configs"
    ) in commands
    assert not any("#1" in line or "IdempotentWrite" in line or "Describe" in line for line in commands)
    assert "# implied by Write on a topic: IdempotentWrite on cluster kafka-cluster for User:worker" in lines


def test_acls_take_the_writing_principal_from_connector_overrides(worker: Path, tmp_path: Path) -> None:
    own = f'{_SCRAM} required username="own" password="secret-o";'
    text = printed(worker, connector(tmp_path, {**_CONFIG, "producer.override.sasl.jaas.config": own}))
    assert ["User:own", "topic", "data", "Write", "required"] in rows(text)
    assert "User:producer" not in text


def test_e11_acls_print_no_password(worker: Path, tmp_path: Path) -> None:
    config = {**_CONFIG, "producer.override.sasl.jaas.config": f'{_SCRAM} required username="o" password="secret-o";'}
    path = connector(tmp_path, config)
    assert "secret-" not in printed(worker, path) + printed(worker, path, "--commands")


@pytest.mark.parametrize(
    "config",
    [
        {"connector.class": "X"},
        {"connector.class": "X", "topic": "t", "transforms": "r", "transforms.r.type": "a.RegexRouter"},
    ],
    ids=["no topic", "a router"],
)
def test_acls_ask_for_a_topic_that_the_config_does_not_name(worker: Path, tmp_path: Path, config: object) -> None:
    path = connector(tmp_path, config)
    assert "name each of them with --topic" in printed(worker, path)
    found = rows(printed(worker, path, "--topic", "a", "--topic", "b"))
    assert ["User:producer", "topic", "b", "Write", "required"] in found
    assert "--topic" not in printed(worker, path, "--topic", "a")


def test_acls_take_a_principal_from_the_option_when_settings_have_none(tmp_path: Path) -> None:
    path = tmp_path / "worker.properties"
    path.write_text(_FILE.replace("SASL_SSL", "SSL") + "ssl.keystore.location=k.p12\nssl.keystore.type=PKCS12\n")
    assert {row[0] for row in rows(printed(path))} == {"User:WORKER"}
    assert {row[0] for row in rows(printed(path, "--principal", "worker=User:CN=w"))} == {"User:CN=w"}
    with pytest.raises(ConfigError, match="roles are worker, producer, consumer, admin"):
        printed(path, "--principal", "boss=User:x")
    with pytest.raises(ConfigError, match="such as User:x"):
        printed(path, "--principal", "worker=x")


def test_acls_read_a_flat_connector_config_with_booleans(worker: Path, tmp_path: Path) -> None:
    path = tmp_path / "flat.json"
    path.write_text(json.dumps({"name": "f", "connector.class": "X", "topic": "t", "slot.dedicated": True}))
    assert ["User:producer", "transactional-id", "g-f-0", "Write", "required"] in rows(printed(worker, path))


def test_initial_offsets_need_the_workers_write_right_on_the_offsets_topic(worker: Path, tmp_path: Path) -> None:
    right = ["User:worker", "topic", "offsets", "Write", "required"]
    assert right not in rows(printed(worker, connector(tmp_path, _CONFIG)))
    offsets = [{"partition": {"id": 0}, "offset": {"seqno": 1}}]
    assert right in rows(printed(worker, connector(tmp_path, _CONFIG, initial_offsets=offsets)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[1]", "must be a JSON object"),
        ('{"config": 1, "name": "c"}', "config must be a JSON object"),
        ('{"connector.class": "X"}', "name is missing"),
        ('{"name": "c", "tasks.max": "0", "connector.class": "X"}', "tasks.max"),
    ],
    ids=["no JSON", "a list", "config is a number", "no name", "no tasks"],
)
def test_acls_name_a_wrong_connector_file(worker: Path, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        printed(worker, path)


def test_acls_name_a_missing_file(worker: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no\.json: cannot be read"):
        printed(worker, tmp_path / "no.json")
    with pytest.raises(ConfigError, match=r"no\.properties"):
        printed(tmp_path / "no.properties")


def test_sink_needs_rights_on_group_and_topics_and_no_transactional_id(worker: Path, tmp_path: Path) -> None:
    config = {
        "connector.class": "FileStreamSink",
        "topics": "words,more",
        "errors.deadletterqueue.topic.name": "dead",
        "consumer.override.sasl.jaas.config": f'{_SCRAM} required username="reader" password="r";',
    }
    found = rows(printed(worker, connector(tmp_path, config)))
    assert ["User:reader", "group", "connect-c", "Read", "required"] in found
    assert ["User:reader", "topic", "words", "Read", "required"] in found
    assert ["User:reader", "topic", "more", "Read", "required"] in found
    assert ["User:producer", "topic", "dead", "Write", "required"] in found
    assert ["User:worker", "group", "connect-c", "Delete", "optional"] in found
    assert [row for row in found if row[1] == "transactional-id" and row[2] != "connect-cluster-g"] == []
    assert all(row[0] != "User:producer" or row[2] in ("dead", "kafka-cluster") for row in found)


def test_sink_needs_read_on_its_resend_topic(worker: Path, tmp_path: Path) -> None:
    config = {"connector.class": "FileStreamSink", "topics": "t", "errors.deadletterqueue.resend.topic.name": "again"}
    found = rows(printed(worker, connector(tmp_path, config)))
    assert ["User:worker", "topic", "again", "Read", "required"] in found
    assert ["User:worker", "topic", "again", "Create", "required"] in found
    assert not any("fencepost-dead-letters-c" in row for row in found)


def test_rights_to_resend_dead_letters_to_the_sinks_resend_topic_are_optional(worker: Path, tmp_path: Path) -> None:
    again = {"errors.deadletterqueue.topic.name": "dead", "errors.deadletterqueue.resend.topic.name": "again"}
    found = rows(printed(worker, connector(tmp_path, {"connector.class": "FileStreamSink", "topics": "t", **again})))
    assert ["User:producer", "topic", "again", "Write", "optional"] in found
    assert ["User:worker", "topic", "dead", "Read", "optional"] in found
    resend = "fencepost-dead-letters-c"
    assert ["User:producer", "transactional-id", resend, "Write", "optional"] in found
    assert {row[0] for row in found if row[1:4] == ["group", resend, "Read"]} == {"User:producer", "User:worker"}


def test_sink_with_initial_offsets_needs_delete_on_its_group(worker: Path, tmp_path: Path) -> None:
    body = {
        "name": "c",
        "config": {"connector.class": "FileStreamSink", "topics": "words"},
        "initial_offsets": [
            {"partition": {"kafka_topic": "words", "kafka_partition": 0}, "offset": {"kafka_offset": 1}}
        ],
    }
    path = tmp_path / "sink.json"
    path.write_text(json.dumps(body))
    assert ["User:worker", "group", "connect-c", "Delete", "required"] in rows(printed(worker, path))


def test_java_sink_is_recognised_by_its_topics_setting(worker: Path, tmp_path: Path) -> None:
    config = {"connector.class": "io.example.QueueSink", "topics.regex": "w.*", "consumer.override.group.id": "mine"}
    text = printed(worker, connector(tmp_path, config))
    assert "mine" in text
    assert "stands for the connector's topics" in text


def test_source_needs_rights_on_its_dead_letter_topic_if_it_tolerates_errors(worker: Path, tmp_path: Path) -> None:
    config = {**_CONFIG, "errors.deadletterqueue.topic.name": "dead"}
    right = ["User:producer", "topic", "dead", "Write", "required"]
    assert right not in rows(printed(worker, connector(tmp_path, config)))
    found = rows(printed(worker, connector(tmp_path, {**config, "errors.tolerance": "all"})))
    assert right in found
    assert ["User:worker", "topic", "dead", "Create", "required"] in found


def test_deletion_of_committed_records_needs_describe_on_groups_and_delete(worker: Path) -> None:
    with worker.open("a") as file:
        file.write("delete.committed.topics=carried.*\n")
    assert not any("Delete" in row for row in rows(printed(worker)))
    with worker.open("a") as file:
        file.write("delete.committed.enabled=true\n")
    found = rows(printed(worker))
    assert ["User:worker", "cluster", "kafka-cluster", "Describe", "required"] in found
    assert ["User:worker", "group", "*", "Describe", "required"] in found
    assert ["User:worker", "topic", "*", "Describe", "required"] in found
    assert ["User:worker", "topic", "TOPIC", "Delete", "required"] in found


_COPY = {"connector.class": "TopicTransform", "topics": "in-a,in-b", "output.topic": "${topic}-out", "tasks.max": 1}


def test_stream_needs_sink_read_rights_and_its_producer_the_groups(worker: Path, tmp_path: Path) -> None:
    found = rows(printed(worker, connector(tmp_path, _COPY)))
    for right in (
        ["User:worker", "group", "connect-c", "Read"],
        ["User:worker", "topic", "in-a", "Read"],
        ["User:producer", "group", "connect-c", "Read"],
        ["User:producer", "topic", "in-b", "Read"],
        ["User:producer", "topic", "in-b-out", "Write"],
        ["User:producer", "transactional-id", "g-c-0", "Write"],
    ):
        assert [*right, "required"] in found
    assert ["User:producer", "topic", "__consumer_offsets", "Read", "optional"] in found
    assert not any(row[2] == "offsets" and row[0] == "User:producer" for row in found)


@pytest.mark.parametrize(
    "config",
    [
        {**_COPY, "output.transforms": "r", "output.transforms.r.type": "a.RegexRouter"},
        {"connector.class": "TopicTransform", "topics": "in-a", "output.topic.field": "where"},
    ],
    ids=["a router", "a field"],
)
def test_acls_ask_for_a_streams_output_topics_when_its_config_names_none(
    worker: Path, tmp_path: Path, config: object
) -> None:
    path = connector(tmp_path, config)
    assert "name each of them with --topic" in printed(worker, path)
    found = rows(printed(worker, path, "--topic", "out"))
    assert ["User:producer", "topic", "out", "Write", "required"] in found
    assert ["User:producer", "topic", "in-a", "Read", "required"] in found
    assert not any(row[2] == "out" and row[3] == "Read" for row in found)


def test_dataframe_stream_needs_its_transactional_ids_as_a_prefix(worker: Path, tmp_path: Path) -> None:
    config = {"connector.class": "TopicSql", "topics": "in-a", "output.topic": "out"}
    found = rows(printed(worker, connector(tmp_path, config)))
    assert ["User:producer", "topic", "out", "Write", "required"] in found
    assert ["User:producer", "transactional-id", "g-c-*", "Write", "required"] in found


def test_streaming_query_needs_its_transactional_id_and_the_topic_of_decisions(worker: Path, tmp_path: Path) -> None:
    config = {
        "connector.class": "SqlStream",
        "topics": "in-a",
        "output.topic": "out",
        "sql": "SELECT * FROM a",
        "checkpoint.location": "/c",
        "commit.group": "lag",
    }
    found = rows(printed(worker, connector(tmp_path, config)))
    assert ["User:producer", "transactional-id", "fencepost-write-*", "Write", "required"] in found
    assert ["User:producer", "group", "lag", "Read", "required"] in found
    for operation in ("Read", "Write", "Create"):
        assert ["User:producer", "topic", "fencepost-writes", operation, "required"] in found


_MIRROR = {
    "topics": "orders",
    "source.cluster.alias": "west",
    "source.cluster.bootstrap.servers": "w:9092",
    "target.cluster.bootstrap.servers": "k:9093",
}


def rights_at(cluster: str, text: str) -> set[str]:
    """Return what is required at a cluster, as `User:a Read topic t`."""
    part = text.partition(f"Kafka at {cluster}\n")[2].partition("Kafka at ")[0]
    return {f"{who} {op} {kind} {name}" for who, kind, name, op, need in rows(part) if need == "required"}


def test_mirror_source_needs_rights_on_both_clusters(worker: Path, tmp_path: Path) -> None:
    config = {**_MIRROR, "connector.class": "MirrorSourceConnector"}
    text = printed(worker, connector(tmp_path, config), "--principal", "source=User:s", "--principal", "target=User:t")
    assert rights_at("w:9092", text) == {
        "User:s Read topic orders", "User:s DescribeConfigs topic orders",
        "User:s Create topic mm2-offset-syncs.target.internal", "User:s Write topic mm2-offset-syncs.target.internal",
    }  # fmt: skip
    found = rights_at("k:9093", text)
    assert {right for right in found if right.startswith("User:t ")} == {
        "User:t Create topic west.orders", "User:t Alter topic west.orders", "User:t AlterConfigs topic west.orders",
    }  # fmt: skip
    assert "User:producer Write topic west.orders" in found
    assert not [right for right in found if " group connect-" in right]


def test_mirror_sink_producer_needs_rights_to_commit_its_group(worker: Path, tmp_path: Path) -> None:
    config = {**_MIRROR, "connector.class": "MirrorSinkConnector", "sync.topic.configs.enabled": "false"}
    text = printed(worker, connector(tmp_path, config), "--principal", "target=User:t")
    found = rights_at("k:9093", text)
    assert "User:producer Read group connect-c" in found
    assert "User:producer Read topic west.orders" in found
    assert "User:t Describe group connect-c" in found
    assert "User:producer Write topic mm2-offset-syncs.west.internal" in found
    assert not [right for right in found if "AlterConfigs" in right]
    assert ["User:ANONYMOUS", "group", "connect-c", "Read", "optional"] in rows(text)


def test_acls_ask_for_a_mirrors_topics_when_its_config_has_a_pattern(worker: Path, tmp_path: Path) -> None:
    config = {**_MIRROR, "connector.class": "MirrorSourceConnector", "topics": "orders.*"}
    path = connector(tmp_path, config)
    assert "--topic" in printed(worker, path)
    named = rights_at("w:9092", printed(worker, path, "--topic", "orders-1", "--topic", "orders-2"))
    assert {"User:ANONYMOUS Read topic orders-1", "User:ANONYMOUS Read topic orders-2"} <= named


def test_mirror_checkpoint_needs_group_rights_and_commit_rights_only_if_enabled(worker: Path, tmp_path: Path) -> None:
    config = {**_MIRROR, "connector.class": "MirrorCheckpointConnector", "target.cluster.alias": "east"}
    text = printed(worker, connector(tmp_path, config), "--principal", "source=User:s", "--principal", "target=User:t")
    assert rights_at("w:9092", text) == {
        "User:s Describe group *", "User:s Describe topic orders", "User:s Read topic mm2-offset-syncs.east.internal",
    }  # fmt: skip
    assert "User:t Read topic west.checkpoints.internal" in rights_at("k:9093", text)
    assert "User:t Read topic west.orders" not in rights_at("k:9093", text)
    config |= {"sync.group.offsets.enabled": "true", "groups": "a,b"}
    found = rights_at("k:9093", printed(worker, connector(tmp_path, config), "--principal", "target=User:t"))
    assert {"User:t Read group a", "User:t Read group b", "User:t Read topic west.orders"} <= found


def test_principal_given_for_a_cluster_applies_to_all_clients_there(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(
        "clusters=west,east\nwest.bootstrap.servers=w:9092\neast.bootstrap.servers=e:9092\nwest->east.enabled=true\n"
    )
    text = printed(path, "--principal", "west=User:w", "--principal", "east=User:e")
    assert "ANONYMOUS" not in text
    assert {right.partition(" ")[0] for right in rights_at("w:9092", text)} == {"User:w"}
    assert {right.partition(" ")[0] for right in rights_at("e:9092", text)} == {"User:e"}
    assert "User:p Write topic heartbeats" in rights_at("e:9092", printed(path, "--principal", "producer=User:p"))
    with pytest.raises(ConfigError, match=r"roles are worker, .*, target, west, east"):
        printed(path, "--principal", "north=User:n")


def test_acls_of_a_mirrormaker_file_have_one_list_per_flow(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(
        "clusters=west,east\nwest.bootstrap.servers=w:9092\neast.bootstrap.servers=e:9092\nwest->east.enabled=true\n"
        "topics=orders\n"
    )
    text = printed(path)
    flows = [line for line in text.splitlines() if line.startswith("# ")]
    assert flows == ["# west->east", "# east->west"]  # the second one sends heartbeats
    assert "User:ANONYMOUS Create topic west.orders" in rights_at("e:9092", text)
    assert "User:ANONYMOUS Write topic heartbeats" in rights_at("w:9092", text.partition("# east->west")[2])
    with pytest.raises(ConfigError, match=r"remove .*connector\.json from the command"):
        printed(path, connector(tmp_path, _CONFIG))
