"""Azure Key Vault, by its own client library, against a server that answers as the REST reference shows.

The library refuses to send tokens without TLS, and to hosts outside of the domain that the challenge names. The token
itself is the test's: only Microsoft's own login can issue real ones.
"""

import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fencepost.api import ConfigError, RetriableError
from fencepost.builtin.provider.cloud import AzureConfigProvider
from support.certificate import server_certificate
from support.http_answers import Answer, Asked, HttpAnswers

HOST, DOMAIN = "shop.vault.azure.net", "vault.azure.net"
EXPIRES = int((datetime.now(UTC) + timedelta(days=1)).timestamp())
SECRETS: dict[str, dict[str, Any]] = {
    "shop-kafka": {"value": '{"password": "hunter22"}', "attributes": {"enabled": True}},
    "token": {"value": "t0ken", "attributes": {"enabled": True, "exp": EXPIRES}},
}


class Token(NamedTuple):
    token: str
    expires_on: int


class Credential:
    def get_token(self, *scopes: str, **_: Any) -> Token:
        assert DOMAIN in scopes[0]
        return Token("right", EXPIRES)


def _answer(asked: Asked) -> Answer:
    if asked.headers.get("authorization") != "Bearer right":
        resource = f"https://{DOMAIN}:{asked.headers['host'].partition(':')[2]}"
        challenge = f'Bearer authorization="https://login.microsoftonline.com/t", resource="{resource}"'
        return Answer({"error": {"code": "Unauthorized"}}, 401, {"WWW-Authenticate": challenge})
    name = asked.path.partition("?")[0].removeprefix("/secrets/").rstrip("/")
    if name == "forbidden":
        return Answer({"error": {"code": "Forbidden", "message": "no"}}, 403)
    if name not in SECRETS:
        return Answer({"error": {"code": "SecretNotFound", "message": "no"}}, 404)
    return Answer({"id": f"https://{HOST}/secrets/{name}/0123", **SECRETS[name]})


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AzureConfigProvider]:
    authority, context = server_certificate(tmp_path, HOST)
    known = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *more, **named: known("127.0.0.1" if host == HOST else host, *more, **named)
    )
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority))
    monkeypatch.setattr(AzureConfigProvider, "_credential", Credential())
    with HttpAnswers(_answer, context) as server:
        yield AzureConfigProvider({"vault.url": f"https://{HOST}:{server.port}"})


def test_a_secret_is_read_by_its_fields_or_as_a_whole(provider: AzureConfigProvider) -> None:
    found = provider.get("shop-kafka", {"password", "gone"})
    assert (found.values, found.ttl_ms) == ({"password": "hunter22"}, None)
    assert provider.get("", {"token", "gone"}).values == {"token": "t0ken"}


def test_values_are_valid_until_the_secret_expires(provider: AzureConfigProvider) -> None:
    before_s = time.time()
    ttl_s = (provider.get("", {"token"}).ttl_ms or 0) / 1000
    assert EXPIRES - time.time() - 1 <= ttl_s <= EXPIRES - before_s + 1


def test_refused_secret_is_a_config_error(provider: AzureConfigProvider) -> None:
    with pytest.raises(ConfigError, match="there is no secret gone"):
        provider.get("gone", {"a"})
    with pytest.raises(ConfigError, match=r"Key Vault refuses forbidden \(403\)"):
        provider.get("", {"forbidden"})


def test_unavailable_vault_is_a_retriable_error(provider: AzureConfigProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "")
    away = AzureConfigProvider({"vault.url": f"https://{HOST}:1"})
    client = away._client

    def impatient() -> Any:
        made = client()
        made._client._config.retry_policy.total_retries = 0
        return made

    monkeypatch.setattr(away, "_client", impatient)
    with pytest.raises(RetriableError, match="does not answer"):
        away.get("", {"token"})
