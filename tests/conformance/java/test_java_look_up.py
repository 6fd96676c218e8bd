"""Config providers in a real host: one of the tests, and Kafka's for files."""

from pathlib import Path

import pytest

from fencepost.builtin.java.client.host import JavaHost
from fencepost.builtin.java.error import JavaError, JavaRetriableError
from fencepost.builtin.java.port import JavaClass, Location


def test_config_provider_is_configured_and_returns_the_requested_keys(host: JavaHost, plugins: Location) -> None:
    provider = JavaClass("tests.VaultProvider", plugins)
    settings = {"token": "s3cret"}
    assert host.ask.look_up(provider, settings, "p", ["token", "missing"]) == ({"token": "p:s3cret"}, 5_000)
    with pytest.raises(JavaRetriableError, match="the vault is away"):
        host.ask.look_up(provider, settings, "away", ["token"])
    with pytest.raises(JavaError, match="there is no path wrong"):
        host.ask.look_up(provider, settings, "wrong", ["token"])


def test_kafkas_file_config_provider_reads_files_in_java(host: JavaHost, tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("user=ada\npassword=hunt\\u00e9r2\n")
    provider = JavaClass("org.apache.kafka.common.config.provider.FileConfigProvider")
    found = host.ask.look_up(provider, {"allowed.paths": str(tmp_path)}, str(secrets), ["password", "user"])
    assert found == ({"password": "huntér2", "user": "ada"}, None)
    (tmp_path / "other").mkdir()
    assert host.ask.look_up(provider, {"allowed.paths": str(tmp_path / "other")}, str(secrets), ["password"]) == (
        {},
        None,
    )
