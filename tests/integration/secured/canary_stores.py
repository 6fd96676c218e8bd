"""Secrets that nothing else looks like, in stores of all kinds: wherever one is found, it was leaked."""

import base64
import json
from pathlib import Path
from typing import Self

import boto3
import pytest
from moto.server import ThreadedMotoServer

from support.certificate import server_certificate
from support.gcp_account import service_account
from support.http_answers import Answer, Asked, HttpAnswers

KINDS = ("file", "directory", "env", "vault", "aws", "gcp", "azure", "own")
_REGION = "eu-central-1"
_JAVA = "org.apache.kafka.common.config.provider"
_CLASSES = {
    "file": f"{_JAVA}.FileConfigProvider",
    "directory": f"{_JAVA}.DirectoryConfigProvider",
    "env": f"{_JAVA}.EnvVarConfigProvider",
    "vault": "fencepost.provider.VaultConfigProvider",
    "aws": "fencepost.provider.AwsConfigProvider",
    "gcp": "fencepost.provider.GcpConfigProvider",
    "azure": "CanaryAzureProvider",
    "own": "CanaryConfigProvider",
}
_ODD = "\"quoted\\it's"
"""The end of each value is quoted in many ways; its beginning stays recognisable."""


class CanaryStores:
    """A context manager. `values` are the canaries by what configs have in their place."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._directory = directory
        self._monkeypatch = monkeypatch
        self._stores: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
        self.values: dict[str, str] = {}
        self.written: set[str] = set()
        """The canaries that configs themselves have."""

    def __enter__(self) -> Self:
        authority, tls = server_certificate(self._directory, "127.0.0.1")
        self._monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority))
        self._vault, self._gcp = HttpAnswers(self._of_vault), HttpAnswers(self._of_gcp)
        self._azure = HttpAnswers(self._of_azure, tls)
        self._aws = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._aws.start()
        self._token = self._keep("env", "canarytoken-of-vault", "VAULT_TOKEN")
        return self

    def __exit__(self, *_: object) -> None:
        for server in (self._vault, self._gcp, self._azure):
            server.close()
        self._aws.stop()

    def canary(self, end: str = _ODD, before: str = "") -> str:
        """Return a reference to a new value, of each store in turn."""
        number = len(self.values)
        return self._keep(KINDS[number % len(KINDS)], f"{before}canary{number:02}-{end}", f"K{number:02}")

    def written_canary(self, end: str = _ODD) -> str:
        """Return a new value that is to stand in a config itself."""
        value = f"canary{len(self.values):02}-{end}"
        self.values[value] = value
        self.written.add(value)
        return value

    def in_file(self, key: str, value: str) -> str:
        """Return a reference to this value."""
        return self._keep("file", value, key)

    def _keep(self, kind: str, value: str, key: str) -> str:
        self._stores[kind][key] = value
        path = {
            "file": f"{self._directory}/canaries.properties", "directory": f"{self._directory}/canaries",
            "vault": "secret/data/canaries", "aws": "canaries", "gcp": "canaries", "azure": "canaries", "own": "any",
        }.get(kind)  # fmt: skip
        reference = f"${{{kind}:{path}:{key}}}" if path else f"${{{kind}:{key}}}"
        self.values[reference] = value
        return reference

    def declared(self) -> dict[str, str]:
        """Return a worker's settings of the providers."""
        params = {
            "file.param.allowed.paths": str(self._directory),
            "directory.param.allowed.paths": str(self._directory),
            "vault.param.address": self._vault.url,
            "vault.param.token": self._token,
            "aws.param.region": _REGION,
            "aws.param.endpoint.url": self._aws_url,
            "gcp.param.endpoint": self._gcp.url,
            "gcp.param.transport": "rest",
            "gcp.param.project.id": "shop",
            "azure.param.vault.url": self._azure.url,
            "own.param.file": str(self._directory / "own.json"),
        }
        return {
            "config.providers": ",".join(("env", *(kind for kind in KINDS if kind != "env"))),
            **{f"config.providers.{kind}.class": name for kind, name in _CLASSES.items()},
            **{f"config.providers.{key}": value for key, value in params.items()},
        }

    @property
    def _aws_url(self) -> str:
        return "http://{}:{}".format(*self._aws.get_host_and_port())

    def fill(self) -> None:
        """Put all values into the stores."""
        escaped = {key: value.replace("\\", "\\\\") for key, value in self._stores["file"].items()}
        text = "".join(f"{key}={value}\n" for key, value in escaped.items())
        (self._directory / "canaries.properties").write_text(text)
        (self._directory / "canaries").mkdir()
        for key, value in self._stores["directory"].items():
            (self._directory / "canaries" / key).write_text(value)
        for key, value in self._stores["env"].items():
            self._monkeypatch.setenv(key, value)
        (self._directory / "own.json").write_text(json.dumps(self._stores["own"]))
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            self._monkeypatch.setenv(name, "testing")
        account = service_account(self._directory / "account.json")
        self._monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account))
        client = boto3.client("secretsmanager", region_name=_REGION, endpoint_url=self._aws_url)
        client.create_secret(Name="canaries", SecretString=json.dumps(self._stores["aws"]))

    def _of_vault(self, asked: Asked) -> Answer:
        if asked.headers.get("x-vault-token") != self.values[self._token]:
            return Answer({"errors": ["permission denied"]}, 403)
        return Answer({"lease_id": "", "data": {"data": self._stores["vault"], "metadata": {"version": 1}}})

    def _of_gcp(self, asked: Asked) -> Answer:
        data = base64.b64encode(json.dumps(self._stores["gcp"]).encode()).decode()
        return Answer({"name": "projects/1/secrets/canaries/versions/1", "payload": {"data": data}})

    def _of_azure(self, asked: Asked) -> Answer:
        if asked.headers.get("authorization") != "Bearer right":
            challenge = f'Bearer authorization="https://login.example.com/t", resource="{self._azure.url}"'
            return Answer({"error": {"code": "Unauthorized"}}, 401, {"WWW-Authenticate": challenge})
        value = json.dumps(self._stores["azure"])
        return Answer({"id": f"{self._azure.url}/secrets/canaries/1", "value": value, "attributes": {"enabled": True}})
