"""What an audit of a mirror learns from its config, and what the user has to add."""

from pathlib import Path

import pytest

from fencepost.builtin.mirror.source.connector import MirrorSourceConnector
from fencepost.cli.connector.audit import Given
from fencepost.cli.connector.audit_scope import GivenEnds, mirror_scope
from fencepost.config import ConfigError
from fencepost.ledger.mirror_audit import MirrorScope

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="{}";'
CONFIG = {
    "source.cluster.alias": "west",
    "target.cluster.alias": "east",
    "source.cluster.bootstrap.servers": "west:9092",
    "target.cluster.bootstrap.servers": "east:9092",
    "topics": "t",
}
SECURED = {"source.cluster.security.protocol": "SASL_PLAINTEXT", "source.cluster.sasl.mechanism": "PLAIN"}
HIDDEN = {**SECURED, "source.cluster.sasl.jaas.config": "[hidden]"}


def scope(config: dict[str, str], ends: GivenEnds) -> MirrorScope:
    return mirror_scope(MirrorSourceConnector, {**CONFIG, **config}, {"offsets": []}, ends, "audit")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("[hidden]", "a worker does not show it"),
        (JAAS.format("[hidden]"), "a worker does not show it"),
        ("${file:/run/secrets/west:jaas}", "only workers look up"),
    ],
)
def test_mirror_audit_names_an_unknown_source_secret_and_its_option(value: str, why: str) -> None:
    config = {**SECURED, "source.cluster.sasl.jaas.config": value}
    with pytest.raises(ConfigError, match=why) as refused:
        scope(config, GivenEnds({}, None))
    assert "source.cluster.sasl.jaas.config" in str(refused.value)
    assert "--source-properties" in str(refused.value)


def test_mirror_audit_names_an_unknown_target_secret_and_its_option() -> None:
    config = {key.replace("source", "target"): value for key, value in HIDDEN.items()}
    with pytest.raises(ConfigError, match=r"target.cluster.sasl.jaas.config.* --properties"):
        scope(config, GivenEnds({}, None))


def test_source_properties_file_replaces_hidden_secrets_of_a_mirror_audit(tmp_path: Path) -> None:
    file = tmp_path / "west.properties"
    file.write_text(f"sasl.jaas.config={JAAS.format('a password')}")
    made = scope(HIDDEN, Given(source_properties=file).ends())
    assert made.source_conf["sasl.password"] == "a password"
    assert made.source_conf["bootstrap.servers"] == "west:9092"
    assert made.target_conf["bootstrap.servers"] == "east:9092"


def test_given_target_brokers_replace_the_target_settings_of_the_mirror() -> None:
    config = {key.replace("source", "target"): value for key, value in HIDDEN.items()}
    made = scope(config, Given(bootstrap="elsewhere:9092").ends())
    assert made.target_conf["bootstrap.servers"] == "elsewhere:9092"
    assert "sasl.password" not in made.target_conf
