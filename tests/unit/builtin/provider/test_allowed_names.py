"""Which secrets of a store are looked up: none of Vault itself, and those of `allowed.paths` if it is set."""

from typing import Any

import pytest

from fencepost.api import ConfigError
from fencepost.builtin.provider.cloud import AwsConfigProvider, AzureConfigProvider, GcpConfigProvider
from fencepost.builtin.provider.store import StoredSecret
from fencepost.builtin.provider.vault import VaultConfigProvider

STORES: list[tuple[type[Any], dict[str, str]]] = [
    (AwsConfigProvider, {}),
    (AzureConfigProvider, {"vault.url": "https://v.example"}),
    (GcpConfigProvider, {"project": "p"}),
]


class Read(VaultConfigProvider):
    """Has a value at each path."""

    def _read(self, path: str) -> dict[str, Any]:
        return {"data": {"id": "found"}}


def vault(**more: str) -> Read:
    return Read({"address": "https://v.example", "token": "t", **{k.replace("_", "."): v for k, v in more.items()}})


@pytest.mark.parametrize(
    "path",
    ["auth/token/lookup-self", "sys/mounts", "identity/entity/id/1", "cubbyhole/x", "AUTH/token/lookup-self",
     "/auth/token/lookup-self", "secret/../auth/token/lookup-self", "./auth/token/lookup-self", "%61uth/token",
     "secret//x", "v1/auth/token/lookup-self", "secret/x?y", "secret\\..\\auth", ""],
)  # fmt: skip
def test_path_of_vault_itself_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="is no path of a secret"):
        vault().get(path, {"id"})


def test_path_of_a_vault_secret_is_read() -> None:
    for path in ("secret/data/shop", "database/creds/orders", "kv/auth/sys"):
        assert vault().get(path, {"id"}).values == {"id": "found"}


@pytest.mark.parametrize("allowed", ["secret/data/orders", "secret/data/orders/", "x,secret/data/orders"])
def test_vault_reads_only_below_allowed_paths_when_they_are_set(allowed: str) -> None:
    provider = vault(allowed_paths=allowed)
    assert provider.get("secret/data/orders/kafka", {"id"}).values == {"id": "found"}
    for path in ("secret/data/payments", "secret/data/orders-of-others", "database/creds/admin"):
        with pytest.raises(ConfigError, match=r"is not below the provider's allowed\.paths"):
            provider.get(path, {"id"})


@pytest.mark.parametrize(("store", "settings"), STORES)
def test_store_reads_only_below_allowed_paths_when_they_are_set(
    store: type[Any], settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "secret", lambda self, name: StoredSecret(f'{{"k": "{name}"}}'))
    provider = store({**settings, "allowed.paths": "orders-"})
    assert provider.get("orders-kafka", {"k"}).values == {"k": "orders-kafka"}
    for path, keys in (("payments-kafka", {"k"}), ("", {"payments-kafka"})):
        with pytest.raises(ConfigError, match=r"is not below the provider's allowed\.paths"):
            provider.get(path, keys)
    assert store(settings).get("payments-kafka", {"k"}).values == {"k": "payments-kafka"}
    with pytest.raises(ConfigError, match="is not below"):
        store({**settings, "allowed.paths": ""}).get("orders-kafka", {"k"})
