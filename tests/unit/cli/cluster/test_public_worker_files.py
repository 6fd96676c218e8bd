"""Worker files of public images and distributions: each is taken, or refused with all that is wrong at once.

Their keys and values are those of the images; hosts and passwords are made up.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.cli.cluster.serve import faults_of
from fencepost.cli.cluster.worker import _worker_config
from fencepost.config import ConfigError
from fencepost.config.file import read_properties
from fencepost.plugin import registry, use_registry

FILES = Path(__file__).parents[3] / "fixtures" / "worker_files"
JKS, UNPROTECTED = "ssl.truststore.location", "listeners"
REFUSED: dict[str, tuple[str, ...]] = {
    # where a firewall or a proxy protects REST, which the file has to say
    "apache-connect-distributed": (),
    "bitnami-kafka-connect": (),
    "confluent-cloud": (),
    "confluent-connect-avro-distributed": (),
    "confluent-connect-distributed": (),
    "cp-kafka-connect": (),
    "debezium-connect": (),
    "landoop-fast-data-dev": (),
    "redpanda-connectors": (),
    "strimzi-plain": (),
    # what has to be converted, or is not there
    "aiven-self-managed": (JKS,),
    "strimzi-scram-tls": (JKS,),
    "cloudera-kerberos": ("sasl.jaas.config",),
    "confluent-platform-rbac": ("listeners.https.ssl.keystore.location", "sasl.jaas.config", JKS),
    "docker-old": ("offset.flush.interval.ms", JKS, "sasl.mechanism"),
}
_EXTENSION = "rest.extension.classes"


@pytest.fixture(autouse=True)
def _own_registry() -> Iterator[None]:
    before = registry()
    yield
    use_registry(before)


def faults(name: str, **more: str) -> list[str]:
    """Return what a start of the worker would print."""
    properties = read_properties(FILES / f"{name}.properties") | {k.replace("_", "."): v for k, v in more.items()}
    properties.pop("plugin.path", None)  # this machine may have such a directory
    try:
        return faults_of(_worker_config(properties))
    except ConfigError as error:
        return list(error.messages)


def named(faults: list[str], keys: tuple[str, ...]) -> list[str]:
    """Return which of the keys each fault is about."""
    return [next((key for key in keys if f" {key}:" in f" {fault}" or f" {key} " in fault), fault) for fault in faults]


def test_table_of_refusals_has_all_public_worker_files() -> None:
    assert {file.stem for file in FILES.glob("*.properties")} == REFUSED.keys()


@pytest.mark.parametrize(("name", "keys"), REFUSED.items())
def test_public_worker_file_with_rest_accepted_names_all_refused_keys(name: str, keys: tuple[str, ...]) -> None:
    assert sorted(named(faults(name, rest_unprotected="accepted"), keys)) == sorted(keys)


@pytest.mark.parametrize(("name", "keys"), REFUSED.items())
def test_unchanged_public_worker_file_names_the_next_step_for_rest(name: str, keys: tuple[str, ...]) -> None:
    found = faults(name)
    [of_rest] = [fault for fault in found if fault.startswith(f"{UNPROTECTED}: other machines can reach")]
    assert "Either set rest.basic.users.file" in of_rest
    assert "set rest.unprotected=accepted" in of_rest
    has_extension = any(_EXTENSION in fault for fault in found)
    assert len(found) == len(keys) + 1 + has_extension
    assert has_extension == (name in ("confluent-platform-rbac", "docker-old"))


def test_worker_file_with_several_kinds_of_faults_reports_all_at_once() -> None:
    """Invalid values, conflicting values, missing keys and untranslatable client settings are reported together."""
    found = faults("docker-old", heartbeat_interval_ms="60000", key_converter="org.example.Gone", group_id="")
    keys = ("offset.flush.interval.ms", "heartbeat.interval.ms", _EXTENSION, UNPROTECTED, JKS, "key.converter")
    assert set(named(found, keys)) >= {*keys}


def test_obsolete_rest_keys_are_ignored_with_an_explanation() -> None:
    properties = read_properties(FILES / "debezium-connect.properties") | {"rest.unprotected": "accepted"}
    config = _worker_config(properties)
    assert config.unknown_keys() == []
    [host] = [text for text in config.warnings() if "'rest.host.name'" in text]
    assert host.endswith("Kafka Connect ignores it since version 3: name the address in listeners, http://HOST:PORT")
    assert "Ignoring 'rest.extension.classes': there is no DebeziumConnectRestExtension here" in config.warnings()
