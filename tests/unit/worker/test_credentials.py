"""The credentials in the workers' file stay in the workers' cluster, and are never sent in clear for a connector."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fencepost.cli.client import client_properties
from fencepost.config.worker import WorkerConfig
from fencepost.plugin import PluginRegistry
from fencepost.worker.plan import Client, ConnectorPlan
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.validation.validation import validate_connector
from support.settings import SETTINGS

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="{0}" password="pw-of-{0}";'
SECURED = {
    **SETTINGS,
    "bootstrap.servers": "b1:9,b2:9",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": JAAS.format("worker"),
    "ssl.keystore.type": "PEM",
    "ssl.keystore.key": "key-of-worker",
    "ssl.keystore.certificate.chain": "chain-of-worker",
    "ssl.key.password": "pw-of-key",
    "ssl.truststore.type": "PEM",
    "ssl.truststore.certificates": "ca-of-all",
    "producer.sasl.jaas.config": JAAS.format("producers"),
}
SECRETS = ("worker", "producers", "pw-of-key")
SOURCE = {"name": "c", "connector.class": "FileStreamSource", "file": "/f", "topic": "t"}
SINK = {"name": "c", "connector.class": "FileStreamSink", "file": "/f", "topics": "t"}
PRODUCER, CONSUMER, ADMIN = (f"{kind}.override." for kind in ("producer", "consumer", "admin"))
SERVERS, PROTOCOL = "bootstrap.servers", "security.protocol"
NAMES: dict[str, tuple[str, ...]] = {"sink": ("g", "c"), "range": ("g",), "dead_letter_reader": ("g",)}


def settings(**more: str) -> WorkerSettings:
    return WorkerSettings(WorkerConfig({**SECURED, **more}), "http://w:1", "me")


def conf(name: str, config: Mapping[str, str]) -> dict[str, Any]:
    worker = settings(**{"exactly.once.source.support": "enabled"}).config
    recipe = ConnectorPlan(worker, config).clients.recipe(Client(name), *NAMES.get(name, ()))
    return dict(
        recipe.translated(lambda own: {k: "evil:9" if v == "${env:SERVERS}" else v for k, v in own.items()}).conf
    )


@pytest.mark.parametrize("servers", ["evil:9", "b1:9,evil:9", "SASL_PLAINTEXT://b1:9", "b1:8", "${env:SERVERS}"])
@pytest.mark.parametrize("name", Client)
def test_client_has_no_credentials_of_the_worker_when_it_goes_to_other_brokers(name: str, servers: str) -> None:
    mechanisms = {prefix + "sasl.mechanism": "PLAIN" for prefix in (PRODUCER, CONSUMER, ADMIN)}
    found = conf(name, {**mechanisms, PRODUCER + SERVERS: servers, CONSUMER + SERVERS: servers})
    assert found[SERVERS] == ("evil:9" if servers.startswith("$") else servers)
    assert not [text for text in map(str, found.values()) if any(secret in text for secret in SECRETS)]
    assert found["ssl.ca.pem"] == "ca-of-all"
    assert found[PROTOCOL].upper() == "SASL_SSL"


@pytest.mark.parametrize("name", Client)
def test_client_has_credentials_of_the_worker_when_it_stays_in_its_cluster(name: str) -> None:
    for servers in ({}, {PRODUCER + SERVERS: "b2:9", CONSUMER + SERVERS: "b2:9, b1:9"}):
        found = conf(name, servers)
        whose = "producers" if name in ("task_producer", "plain_producer", "fencing") else "worker"
        assert (found["sasl.username"], found["ssl.key.pem"]) == (whose, "key-of-worker")


@pytest.mark.parametrize("name", Client)
def test_client_has_its_own_credentials_when_it_goes_to_other_brokers(name: str) -> None:
    own = {SERVERS: "far:9", "sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS.format("orders")}
    found = conf(name, {prefix + key: value for prefix in (PRODUCER, CONSUMER, ADMIN) for key, value in own.items()})
    assert (found[SERVERS], found["sasl.username"]) == ("far:9", "orders")
    assert "ssl.key.pem" not in found


@pytest.mark.parametrize("name", Client)
def test_credentials_of_the_worker_are_not_sent_when_tls_is_switched_off(name: str) -> None:
    weak = {PROTOCOL: "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    found = conf(name, {prefix + key: value for prefix in (PRODUCER, CONSUMER, ADMIN) for key, value in weak.items()})
    assert "sasl.password" not in found


def faults(config: Mapping[str, str], **worker: str) -> dict[str, str]:
    report = validate_connector(dict(config), plugins=PluginRegistry(), worker=settings(**worker).config)
    return {one.value.name: " ".join(one.value.errors) for one in report.configs if one.value.errors}


@pytest.mark.parametrize(
    ("config", "key", "lacking"),
    [
        ({**SOURCE, PRODUCER + SERVERS: "far:9"}, PRODUCER + SERVERS, PRODUCER),
        ({**SOURCE, PRODUCER + SERVERS: "far:9", PRODUCER + PROTOCOL: "SSL"}, PRODUCER + SERVERS, CONSUMER),
        ({**SOURCE, PRODUCER + SERVERS: "far:9", PRODUCER + PROTOCOL: "SSL", CONSUMER + PROTOCOL: "SSL"},
         PRODUCER + SERVERS, ADMIN),
        ({**SOURCE, ADMIN + SERVERS: "far:9"}, ADMIN + SERVERS, ADMIN),
        ({**SINK, CONSUMER + SERVERS: "far:9"}, CONSUMER + SERVERS, CONSUMER),
        ({**SINK, CONSUMER + SERVERS: "far:9", CONSUMER + PROTOCOL: "SSL"}, CONSUMER + SERVERS, ADMIN),
    ],
    ids=str,
)  # fmt: skip
def test_other_brokers_are_refused_when_a_client_sets_no_security_protocol(
    config: dict[str, str], key: str, lacking: str
) -> None:
    found = faults(config)
    assert list(found) == [key], found
    assert "the worker's credentials do not go to other brokers" in found[key]
    assert f"Set {lacking}{PROTOCOL}" in found[key]
    assert not faults(config, **{PROTOCOL: "PLAINTEXT"})


def test_other_brokers_are_accepted_when_all_clients_set_their_security() -> None:
    own = {PROTOCOL: "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS.format("orders")}
    everywhere = {prefix + key: value for prefix in (PRODUCER, CONSUMER, ADMIN) for key, value in own.items()}
    assert not faults({**SOURCE, **everywhere, PRODUCER + SERVERS: "far:9"})
    assert not faults({**SINK, **everywhere, CONSUMER + SERVERS: "far:9"})


@pytest.mark.parametrize("prefix", [PRODUCER, CONSUMER, ADMIN])
def test_protocol_without_tls_is_refused_when_it_would_send_the_workers_secrets(prefix: str) -> None:
    weak = {**SOURCE, prefix + PROTOCOL: "SASL_PLAINTEXT"}
    assert list(faults(weak)) == [prefix + PROTOCOL]
    assert "are sent through TLS only" in faults(weak)[prefix + PROTOCOL]
    assert not faults({**weak, f"{prefix}sasl.jaas.config": JAAS.format("orders"), f"{prefix}sasl.mechanism": "PLAIN"})
    assert not faults(weak, **{PROTOCOL: "SASL_PLAINTEXT"})


def test_command_line_keeps_its_credentials_when_a_connector_has_other_brokers(tmp_path: Path) -> None:
    file = tmp_path / "worker.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in SECURED.items()))
    far = client_properties(file, None, "evil:9")
    assert far[SERVERS] == "evil:9"
    assert not any("worker" in value for key, value in far.items() if key.startswith(("sasl.", "ssl.")))
    assert "sasl.jaas.config" in client_properties(file, None, "b1:9")
    assert "sasl.jaas.config" in client_properties(file, "chosen:9", "evil:9")
