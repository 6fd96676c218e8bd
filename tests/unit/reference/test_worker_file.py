"""The worker's own file refers to providers that it declares itself."""

from pathlib import Path

import pytest

from fencepost.config import ConfigError
from fencepost.config.worker import WorkerConfig
from fencepost.reference import providers_of
from fencepost.reference.providers import worker_properties
from support.settings import SETTINGS

OWN = """
from fencepost.api import ConfigData, ConfigProvider

class Backwards(ConfigProvider):
    def get(self, path, keys):
        return ConfigData({key: key[::-1] for key in keys})
"""


def test_worker_properties_contain_resolved_values_and_providers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_BROKERS", "k:9092")
    declared = {"config.providers": "env", "config.providers.env.class": "EnvVarConfigProvider"}
    found = worker_properties({**SETTINGS, **declared, "bootstrap.servers": "${env:FENCEPOST_BROKERS}"})
    assert WorkerConfig(found).bootstrap_servers == ["k:9092"]
    assert declared.items() <= found.items()


def test_a_reference_to_a_provider_that_is_not_declared_is_refused() -> None:
    given = {**SETTINGS, "bootstrap.servers": "${env:KAFKA}", "producer.sasl.password": "${file:/secrets:password}"}
    with pytest.raises(ConfigError) as refused:
        worker_properties({**given, "config.providers": "x", "config.providers.x.param.x": "${env:X}"})
    assert [text.split(" refers")[0] for text in refused.value.messages] == [
        "bootstrap.servers: ${env:KAFKA}",
        "producer.sasl.password: ${file:/secrets:password}",
    ]


def test_custom_provider_is_found_in_the_plugin_path(tmp_path: Path) -> None:
    (tmp_path / "backwards_provider.py").write_text(OWN)
    declared = {"config.providers": "b", "config.providers.b.class": "Backwards", "plugin.path": str(tmp_path)}
    assert worker_properties({**declared, "x": "${b:drowssap}"})["x"] == "password"


def test_the_plugin_path_itself_cannot_be_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_PLUGINS", "/plugins")
    declared = {"config.providers": "env", "config.providers.env.class": "EnvVarConfigProvider"}
    with pytest.raises(ConfigError, match=r"plugin\.path: it names where providers are found"):
        worker_properties({**declared, "plugin.path": "${env:FENCEPOST_PLUGINS}"})


def test_pattern_limits_configs_of_connectors_and_not_the_workers_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_SERVERS", "k:9092")
    monkeypatch.setenv("CONNECT_TOPIC", "lines")
    declared = {
        "config.providers": "env,store",
        "config.providers.env.class": "EnvVarConfigProvider",
        "config.providers.env.param.allowlist.pattern": "CONNECT_.*",
        "config.providers.store.class": "FileConfigProvider",
        "config.providers.store.param.allowed.paths": "/${env:KAFKA_SERVERS}",
    }
    found = worker_properties({**SETTINGS, **declared, "bootstrap.servers": "${env:KAFKA_SERVERS}"})
    assert found["bootstrap.servers"] == "k:9092"
    providers = providers_of(found)
    providers.check()
    assert providers.look_up({"topic": "${env:CONNECT_TOPIC}"}).require() == {"topic": "lines"}
    with pytest.raises(ConfigError, match=r"KAFKA_SERVERS is not in the provider's allowlist\.pattern"):
        providers.look_up({"topic": "${env:KAFKA_SERVERS}"}).require()
