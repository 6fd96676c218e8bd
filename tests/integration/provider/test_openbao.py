"""The provider for Vault against a real OpenBao, which has Vault's API."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hvac
import pytest

from fencepost.api import ConfigError, RetriableError
from fencepost.builtin.provider.vault import VaultConfigProvider
from fencepost.reference import Providers
from fencepost.testing import eventually
from support.worker import free_port

ROOT = "root-token-of-tests"
POLICY = 'path "secret/data/shop" { capabilities = ["read"] }\npath "kv/shop" { capabilities = ["read"] }'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[hvac.Client]:
    """A server in memory, with secrets in engines of both kinds, and a role that may read some of them."""
    directory, url = tmp_path_factory.mktemp("openbao"), f"127.0.0.1:{free_port()}"
    command = [str(Path(sys.executable).with_name("bao")), "server", "-dev", "-dev-no-store-token"]
    command += [f"-dev-root-token-id={ROOT}", f"-dev-listen-address={url}"]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={"HOME": str(directory)})
    try:
        client = hvac.Client(url=f"http://{url}", token=ROOT)
        eventually(client.sys.is_initialized, within_s=100)
        _fill(client)
        yield client
    finally:
        process.kill()
        process.wait()


def _fill(client: hvac.Client) -> None:
    client.secrets.kv.v2.create_or_update_secret("shop", {"password": "hunter22", "port": 5432})
    client.secrets.kv.v2.create_or_update_secret("other", {"password": "hunter33"})
    client.secrets.kv.v2.create_or_update_secret("deleted", {"password": "hunter44"})
    client.secrets.kv.v2.delete_latest_version_of_secret("deleted")
    client.sys.enable_secrets_engine("kv", options={"version": "1"})
    client.secrets.kv.v1.create_or_update_secret("shop", {"password": "old style"}, mount_point="kv")
    client.sys.create_or_update_policy("shop", POLICY)
    client.sys.enable_auth_method("approle")
    client.auth.approle.create_or_update_approle("shop", token_policies=["shop"])


def provider(server: hvac.Client, **more: str) -> VaultConfigProvider:
    return VaultConfigProvider({"address": server.url, "token": ROOT, **more})


def test_secrets_of_both_kv_engines_are_read(server: hvac.Client) -> None:
    found = provider(server).get("secret/data/shop", {"password", "port", "gone"})
    assert (found.values, found.ttl_ms) == ({"password": "hunter22", "port": "5432"}, None)
    found = provider(server).get("kv/shop", {"password"})
    assert (found.values, found.ttl_ms) == ({"password": "old style"}, None)


def test_a_role_reads_only_secrets_allowed_by_its_policy(server: hvac.Client) -> None:
    role = server.auth.approle.read_role_id("shop")["data"]["role_id"]
    secret = server.auth.approle.generate_secret_id("shop")["data"]["secret_id"]
    own = provider(server, **{"auth.method": "approle", "role": role, "secret.id": secret})
    assert own.get("secret/data/shop", {"password"}).values == {"password": "hunter22"}
    with pytest.raises(ConfigError, match="Vault does not allow secret/data/other to be read"):
        own.get("secret/data/other", {"password"})
    wrong = provider(server, **{"auth.method": "approle", "role": role, "secret.id": "wrong"})
    with pytest.raises(ConfigError, match="Vault refuses secret/data/shop"):
        wrong.get("secret/data/shop", {"password"})


@pytest.mark.parametrize("path", ["secret/data/none", "secret/data/deleted", "kv/none", "secret/shop", "nowhere/shop"])
def test_a_missing_secret_is_a_config_error(server: hvac.Client, path: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Providers(_declared(server)).look_up({"a": f"${{vault:{path}:password}}"}).require()
    assert f"a: ${{vault:{path}:password}} cannot be looked up" in str(refused.value)


def test_a_sealed_server_is_tried_again(server: hvac.Client) -> None:
    own = {"a": "${vault:secret/data/shop:password}"}
    assert Providers(_declared(server)).look_up(own).require() == {"a": "hunter22"}
    server.sys.seal()
    with pytest.raises(RetriableError, match=r"cannot be looked up now: Vault at .* does not answer"):
        Providers(_declared(server)).look_up(own).require()


def _declared(server: hvac.Client) -> dict[str, Any]:
    return {
        "config.providers": "vault",
        "config.providers.vault.class": "VaultConfigProvider",
        "config.providers.vault.param.address": server.url,
        "config.providers.vault.param.token": ROOT,
    }
