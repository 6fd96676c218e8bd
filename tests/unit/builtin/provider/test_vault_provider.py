"""Vault, by its own client library, against a server that answers as Vault's API documentation shows.

No Vault or OpenBao server can be installed here.
"""

import json
import logging
from collections.abc import Iterator

import pytest

from fencepost.api import ConfigError, RetriableError
from fencepost.builtin.provider import vault
from fencepost.builtin.provider.vault import VaultConfigProvider
from support.http_answers import Answer, Asked, HttpAnswers

_COMMON = {"request_id": "r", "renewable": False, "wrap_info": None, "warnings": None, "auth": None}
KV2 = {
    **_COMMON, "lease_id": "", "lease_duration": 0,
    "data": {
        "data": {"password": "hunter22", "port": 5432},
        "metadata": {"created_time": "2018-03-22T02:24:06.945319214Z", "deletion_time": "", "version": 2},
    },
}  # fmt: skip
KV1 = {**_COMMON, "lease_id": "", "lease_duration": 2764800, "data": {"password": "old style"}}
CREDENTIALS = {
    **_COMMON, "renewable": True, "lease_id": "database/creds/shop/2f6a614c", "lease_duration": 3600,
    "data": {"username": "v-shop-1", "password": "made up"},
}  # fmt: skip
READ = {"/v1/secret/data/shop": KV2, "/v1/kv/shop": KV1, "/v1/database/creds/shop": CREDENTIALS}


def _answer(asked: Asked) -> Answer:
    if asked.path == "/v1/auth/approle/login":
        assert json.loads(asked.body) == {"role_id": "shop", "secret_id": "sesame"}
        return Answer({**_COMMON, "auth": {"client_token": "from-a-role", "lease_duration": 1200}})
    if asked.path == "/v1/auth/kubernetes/login":
        return Answer({**_COMMON, "auth": {"client_token": "from-a-pod", "lease_duration": 1200}})
    if asked.headers.get("x-vault-token") not in ("right", "from-a-role", "from-a-pod"):
        return Answer({"errors": ["permission denied"]}, 403)
    if asked.path == "/v1/sealed":
        return Answer({"errors": ["Vault is sealed"]}, 503)
    return Answer(READ[asked.path]) if asked.path in READ else Answer({"errors": []}, 404)


@pytest.fixture(scope="module")
def server() -> Iterator[HttpAnswers]:
    with HttpAnswers(_answer) as answers:
        yield answers


def provider(server: HttpAnswers, **more: str) -> VaultConfigProvider:
    given = {"token": "right", **{key.replace("_", "."): value for key, value in more.items()}}
    return VaultConfigProvider({"address": server.url, **given})


def test_secrets_of_both_kv_engines_are_read(server: HttpAnswers) -> None:
    own = provider(server, namespace="team")
    found = own.get("secret/data/shop", {"password", "port", "gone"})
    assert (found.values, found.ttl_ms) == ({"password": "hunter22", "port": "5432"}, None)
    assert server.asked[-1].headers["x-vault-namespace"] == "team"
    found = own.get("kv/shop", {"password"})
    assert (found.values, found.ttl_ms) == ({"password": "old style"}, None)


def test_leased_values_are_valid_for_most_of_their_lease(server: HttpAnswers) -> None:
    found = provider(server).get("database/creds/shop", {"username", "password"})
    assert (found.values["username"], found.ttl_ms) == ("v-shop-1", 3_240_000)


def test_vault_provider_logs_in_with_a_role(server: HttpAnswers, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    found = provider(server, auth_method="approle", role="shop", secret_id="sesame\n")
    assert found.get("kv/shop", {"password"}).values == {"password": "old style"}
    (tmp_path / "token").write_text("jwt of the pod\n")
    monkeypatch.setattr(vault, "_SERVICE_ACCOUNT", tmp_path / "token")
    found = provider(server, auth_method="kubernetes", role="shop")
    assert found.get("kv/shop", {"password"}).values == {"password": "old style"}
    assert json.loads(server.asked[-2].body) == {"jwt": "jwt of the pod", "role": "shop"}


def test_secret_refused_by_vault_is_a_config_error(server: HttpAnswers) -> None:
    with pytest.raises(ConfigError, match="Vault does not allow kv/shop to be read"):
        provider(server, token="wrong").get("kv/shop", {"password"})
    with pytest.raises(ConfigError, match="there is nothing at kv/none in Vault"):
        provider(server).get("kv/none", {"password"})


def test_sealed_or_unavailable_vault_is_a_retriable_error(server: HttpAnswers) -> None:
    with pytest.raises(RetriableError, match="does not answer: VaultDown"):
        provider(server).get("sealed", {"password"})
    away = VaultConfigProvider({"address": "http://127.0.0.1:1", "token": "right"})
    with pytest.raises(RetriableError, match="does not answer: ConnectionError"):
        away.get("kv/shop", {"password"})


@pytest.mark.parametrize(
    ("given", "key"), [({}, "token"), ({"auth.method": "approle", "role": "r"}, "secret.id"),
                       ({"auth.method": "kubernetes"}, "role")],
)  # fmt: skip
def test_a_login_without_its_settings_is_refused(given: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError, match=f'Missing required configuration "{key}"'):
        VaultConfigProvider({"address": "http://v", **given})


def test_neither_token_nor_value_is_in_repr_or_logs(server: HttpAnswers, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    own = provider(server)
    assert "hunter22" not in repr(own.get("secret/data/shop", {"password"}))
    assert "right" not in repr(own.token)
    assert "hunter22" not in caplog.text
