"""What an audit of a database refuses, and what it says is missing."""

import pytest
from typer.testing import CliRunner

from fencepost.cli.connector.audit_scope import source_audit, target_audit
from fencepost.cli.main import app
from fencepost.config import ConfigError
from support.http_answers import Answer, HttpAnswers
from support.postgres_config import MINIMAL

JSON = "org.apache.kafka.connect.json.JsonConverter"
CONFIG = {**MINIMAL, "name": "shop", "key.converter": JSON, "value.converter": JSON}


def audit(given: dict[str, str], worker: dict[str, str], **more: str) -> None:
    config = {**CONFIG, **{key.replace("_", "."): value for key, value in more.items()}}
    source_audit({}, "shop", config, dict, given, worker).close()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"transforms": "unwrap"}, "transforms may change what is written"),
        ({"database_password": "[hidden]"}, "name the file with --source-properties"),
        ({"database_password": "${env:PASSWORD}"}, "only workers look up what it refers to"),
        ({"snapshot_mode": "initial_only"}, "snapshot.mode=initial_only: the connector does not follow the database"),
        ({"value_converter": ""}, "value.converter is the worker's: name the worker's file with --properties"),
    ],
)
def test_config_that_an_audit_cannot_use_is_refused_with_the_next_step(more: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        audit({}, {}, **more)


def test_password_and_converter_may_come_from_files() -> None:
    worker = {"value.converter": JSON, "value.converter.schemas.enable": "false"}
    audit({"database.password": "secret"}, worker, database_password="[hidden]", value_converter="")


SINK = {
    "name": "copy", "topics": "orders", "connection.url": "jdbc:postgresql://127.0.0.1/shop", "connection.user": "copy",
    "pk.mode": "record_key", "key.converter": JSON, "value.converter": JSON,
}  # fmt: skip


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"transforms": "unwrap"}, "transforms may change what is written"),
        ({"connection.password": "[hidden]"}, "name the file with --source-properties"),
        ({"insert.mode": "update"}, "insert.mode=update: rows that others insert later"),
        ({"consumer.override.isolation.level": "read_uncommitted"}, "reads aborted records as well"),
        ({"value.converter": ""}, "value.converter is the worker's"),
    ],
)
def test_sink_that_an_audit_cannot_compare_is_refused(more: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        target_audit({}, "copy", {**SINK, **more}, {}, {})


def test_database_of_another_connector_is_refused() -> None:
    config = {"connector.class": "FileStreamSource"}
    answers = {"/connectors/lines/config": config, "/kafka": {"bootstrap_servers": "127.0.0.1:19092"}}
    with HttpAnswers(lambda asked: Answer(answers[asked.path])) as served:
        done = CliRunner().invoke(app, ["audit", "lines", "--source-database", "--url", served.url])
    assert "lines is no PostgresSource" in str(done.exception)
