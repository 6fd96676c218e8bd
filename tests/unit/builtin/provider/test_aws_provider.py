"""AWS Secrets Manager, by its own client library, against moto."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from fencepost.api import ConfigError, RetriableError
from fencepost.builtin.provider.cloud import AwsConfigProvider

REGION = "eu-central-1"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        yield boto3.client("secretsmanager", region_name=REGION)


def provider(**more: str) -> AwsConfigProvider:
    return AwsConfigProvider({"region": REGION, **{key.replace("_", "."): value for key, value in more.items()}})


def test_a_secret_is_read_by_its_fields_or_as_a_whole(store: Any) -> None:
    store.create_secret(Name="shop/kafka", SecretString='{"password": "hunter22", "port": 9092}')
    store.create_secret(Name="token", SecretString="t0ken")
    store.create_secret(Name="keystore", SecretBinary=b"\x00\x01")
    found = provider().get("shop/kafka", {"password", "port", "gone"})
    assert (found.values, found.ttl_ms) == ({"password": "hunter22", "port": "9092"}, None)
    assert provider().get("", {"token", "gone"}).values == {"token": "t0ken"}
    assert provider().get("", {"keystore"}).values == {"keystore": "AAE="}
    assert provider(secret_prefix="shop/").get("kafka", {"port"}).values == {"port": "9092"}


def test_newest_version_of_a_secret_is_read(store: Any) -> None:
    store.create_secret(Name="token", SecretString="old")
    store.put_secret_value(SecretId="token", SecretString="new")
    assert provider().get("", {"token"}).values == {"token": "new"}


def test_values_are_valid_until_the_next_rotation_or_the_refresh(store: Any) -> None:
    store.create_secret(Name="token", SecretString="t0ken")
    assert provider(refresh_interval_ms="5000").get("", {"token"}).ttl_ms == 5_000
    store.rotate_secret(SecretId="token", RotationRules={"AutomaticallyAfterDays": 30}, RotateImmediately=False)
    next_at = store.describe_secret(SecretId="token").get("NextRotationDate")
    assert next_at is not None
    assert 29 * 86_400_000 < (provider().get("", {"token"}).ttl_ms or 0) < 31 * 86_400_000


def test_missing_or_unusable_secret_is_a_config_error(store: Any) -> None:
    store.create_secret(Name="plain", SecretString="no json")
    with pytest.raises(ConfigError, match="there is no secret gone"):
        provider().get("gone", {"a"})
    with pytest.raises(ConfigError, match="the secret plain is not a JSON object"):
        provider().get("plain", {"a"})
    store.delete_secret(SecretId="plain")
    with pytest.raises(ConfigError, match="Secrets Manager refuses plain: InvalidRequestException"):
        provider().get("plain", {"a"})


def test_unavailable_service_is_a_retriable_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(RetriableError, match="Secrets Manager does not answer: EndpointConnectionError"):
        provider(endpoint_url="http://127.0.0.1:1").get("", {"token"})
