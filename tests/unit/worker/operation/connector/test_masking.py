"""E11: secrets in connector configs are not shown, and survive being sent back as they were shown."""

import threading
from pathlib import Path

import pytest

from fencepost.builtin.java.port import HostOptions
from fencepost.secret.redaction import HIDDEN
from fencepost.testing import eventually
from fencepost.worker.operation.connector.answer import masked, unmasked
from support.java_host import ScriptedHost, ScriptedJava, definition
from support.scripted_plugins import PRICES, plugins_with, used

_CONFIG = {
    "connector.class": "FileStreamSource",
    "file": "/data",
    "producer.override.sasl.jaas.config": "org...PlainLoginModule required username='u' password='p';",
    "db.password": "canary",
    "api.token": "canary",
    "from.provider.password": "${file:/s:key}",
}


def test_e11_secrets_are_hidden_and_everything_else_is_shown():
    shown = masked(_CONFIG)
    assert {k for k, v in shown.items() if v == HIDDEN} == {
        "producer.override.sasl.jaas.config",
        "db.password",
        "api.token",
    }
    assert shown["file"] == "/data"
    assert shown["from.provider.password"] == "${file:/s:key}"
    assert "canary" not in repr(shown)


def test_masked_config_can_be_sent_back():
    assert unmasked({**masked(_CONFIG), "file": "/other"}, _CONFIG) == {**_CONFIG, "file": "/other"}


@pytest.mark.parametrize("stored", [None, {}])
def test_config_without_a_predecessor_is_accepted_unchanged(stored: dict[str, str] | None):
    assert unmasked({"db.password": "new"}, stored) == {"db.password": "new"}


def test_secrets_of_converters_and_in_urls_are_hidden_as_well():
    config = {
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": "http://me:canary@registry:8081",
        "value.converter.basic.auth.user.info": "me:canary",
        "value.converter.bearer.auth.client.secret": "canary",
    }
    shown = masked(config)
    assert "canary" not in repr(shown)
    assert unmasked(shown, config) == config


def test_values_derived_from_secrets_are_hidden_in_task_configs():
    connector = {**_CONFIG, "db.password": "canary-51"}
    shown = masked({"dsn": "db host=h password=canary-51 file=/data"}, connector)
    assert shown == {"dsn": "db host=h password=[hidden] file=/data"}


def test_e11_all_own_keys_of_a_java_connector_are_hidden_until_a_jvm_is_asked(tmp_path: Path) -> None:
    machine = ScriptedJava()
    machine.definitions[PRICES] = [definition("url"), definition("passphrase", "PASSWORD", "")]
    config = {"connector.class": PRICES, "tasks.max": "1", "url": "jdbc:prices", "passphrase": "canary"}
    is_there = threading.Event()
    start = machine.start

    def start_late(options: HostOptions) -> ScriptedHost:
        assert is_there.wait(60)
        return start(options)

    machine.start = start_late  # type: ignore[method-assign]
    with used(plugins_with(tmp_path, machine=machine)):
        before = masked(config)
        assert before == {**config, "url": HIDDEN, "passphrase": HIDDEN}
        assert unmasked(before, config) == config
        is_there.set()
        eventually(lambda: masked(config)["url"] == "jdbc:prices", within_s=60)
        assert masked(config)["passphrase"] == HIDDEN
