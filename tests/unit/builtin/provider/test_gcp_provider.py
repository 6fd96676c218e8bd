"""Google Secret Manager, by its own client library, against a server that answers as the REST reference shows."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.api import ConfigError, RetriableError
from fencepost.builtin.provider.cloud import GcpConfigProvider
from support.gcp_account import service_account
from support.http_answers import Answer, Asked, HttpAnswers

SECRETS = {"shop-kafka": '{"password": "hunter22"}', "token": "t0ken"}


def _answer(asked: Asked) -> Answer:
    if "authorization" not in asked.headers:
        return _refused(401, "UNAUTHENTICATED")
    path = asked.path.partition("?")[0]
    name = path.removeprefix("/v1/projects/shop/secrets/").removesuffix(":access")
    secret, _, version = name.partition("/versions/")
    if secret == "forbidden":
        return _refused(403, "PERMISSION_DENIED")
    if secret == "down":
        return _refused(503, "UNAVAILABLE")
    if secret not in SECRETS or version not in ("latest", "7"):
        return _refused(404, "NOT_FOUND")
    data = base64.b64encode(f"{SECRETS[secret]}{'' if version == 'latest' else version}".encode()).decode()
    return Answer({"name": f"projects/1/secrets/{secret}/versions/7", "payload": {"data": data}})


def _refused(code: int, status: str) -> Answer:
    return Answer({"error": {"code": code, "message": "no", "status": status}}, code)


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return service_account(tmp_path_factory.mktemp("gcp") / "account.json")


@pytest.fixture
def provider(account: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GcpConfigProvider]:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account))
    with HttpAnswers(_answer) as server:
        yield GcpConfigProvider({"endpoint": server.url, "transport": "rest", "project.id": "shop"})


def test_a_secret_is_read_by_its_fields_or_as_a_whole(provider: GcpConfigProvider) -> None:
    assert provider.get("shop-kafka", {"password", "gone"}).values == {"password": "hunter22"}
    assert provider.get("", {"token", "gone"}).values == {"token": "t0ken"}
    assert provider.get("", {"token/versions/7"}).values == {"token/versions/7": "t0ken7"}
    assert provider.get("projects/shop/secrets/shop-kafka", {"password"}).values == {"password": "hunter22"}


def test_refused_secret_is_a_config_error(provider: GcpConfigProvider) -> None:
    with pytest.raises(ConfigError, match="there is no secret gone"):
        provider.get("gone", {"a"})
    with pytest.raises(ConfigError, match="Secret Manager refuses forbidden: Forbidden"):
        provider.get("", {"forbidden"})
    with pytest.raises(ConfigError, match=r"token is in no project: set project\.id"):
        GcpConfigProvider({}).get("", {"token"})


def test_unavailable_service_is_a_retriable_error(provider: GcpConfigProvider) -> None:
    with pytest.raises(RetriableError, match="Secret Manager does not answer for down"):
        provider.get("", {"down"})


def test_a_process_without_credentials_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(ConfigError, match="no credentials for Secret Manager"):
        GcpConfigProvider({"project.id": "shop", "transport": "rest"}).get("", {"token"})
