"""Secrets of HashiCorp Vault and OpenBao: `${vault:secret/data/shop:password}`."""

import re
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

from fencepost.api import ConfigData, ConfigError, ConfigProvider, RetriableError, Secret, at_least, one_of, setting
from fencepost.builtin.provider.store import AllowedNames, as_text, imported
from fencepost.config import Type

_OF_VAULT = ("auth", "cubbyhole", "identity", "sys", "v1")
_NOT_PLAIN = re.compile(r"[%?#\\\s]|[^ -~]")
_SHARE_OF_LEASE = 0.9  # values are looked up again before they expire
_TOKEN, _APP_ROLE, _KUBERNETES = "token", "approle", "kubernetes"
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


class VaultConfigProvider(AllowedNames, ConfigProvider):
    """The path is that of Vault's API, as `vault read` takes it: with `data/` after the mount of a KV 2 engine.

    Values with a lease, such as credentials of a database engine, are looked up again when nine tenths of it are over.
    """

    address: str = setting("address", doc="The URL of Vault, such as https://vault.example.com:8200.")
    namespace: str | None = setting("namespace", default=None, doc="The namespace, in Vault Enterprise.")
    auth_method: str = setting(
        "auth.method",
        default=_TOKEN,
        check=one_of(_TOKEN, _APP_ROLE, _KUBERNETES),
        doc="How to log in: `token`, `approle` or `kubernetes`.",
    )
    token: Secret | None = setting("token", default=None, doc="For `token`: the token, or a reference to it.")
    role: str | None = setting("role", default=None, doc="For `approle` the role's id, for `kubernetes` its name.")
    secret_id: Secret | None = setting("secret.id", default=None, doc="For `approle`: the secret id, or a reference.")
    authority: str | None = setting(
        "ssl.ca.location", default=None, doc="PEM file with the authority of Vault's certificate; unset: the system's."
    )
    timeout_ms: int = setting(
        "timeout.ms", default=10_000, check=at_least(1), type=Type.INT, doc="How long a request may take."
    )

    def check_together(self) -> list[str]:
        needs = {_TOKEN: ["token"], _APP_ROLE: ["role", "secret.id"], _KUBERNETES: ["role"]}[self.auth_method.lower()]
        return [
            f'Missing required configuration "{key}": auth.method={self.auth_method} needs it'
            for key in needs
            if self.originals.get(key) is None
        ]

    def get(self, path: str, keys: Set[str]) -> ConfigData:
        _require_secret(path)
        self.require_allowed(path)
        answer = self._read(path)
        data: Mapping[str, Any] = answer.get("data") or {}
        if isinstance(data.get("data"), dict) and isinstance(data.get("metadata"), dict):
            data = data["data"]  # a KV 2 engine
        lease_s = answer.get("lease_duration") or 0
        ttl_ms = int(lease_s * 1000 * _SHARE_OF_LEASE) if answer.get("lease_id") and lease_s else None
        return ConfigData({key: as_text(data[key]) for key in keys if data.get(key) is not None}, ttl_ms)

    def _read(self, path: str) -> Mapping[str, Any]:
        errors, requests = imported("hvac.exceptions", "vault"), imported("requests", "vault")
        try:
            answer = self._client().read(path)
        except (errors.Forbidden, errors.Unauthorized):
            raise ConfigError(
                f"Vault does not allow {path} to be read: correct the path, or extend the policy"
            ) from None
        except (errors.InvalidRequest, errors.InvalidPath) as error:
            raise ConfigError(f"Vault refuses {path}: {error}") from None
        except (errors.VaultError, requests.RequestException) as error:
            raise RetriableError(f"Vault at {self.address} does not answer: {type(error).__name__}") from None
        if not isinstance(answer, dict):
            raise ConfigError(f"there is nothing at {path} in Vault: write it, or correct the path (KV 2 needs data/)")
        return answer

    def _client(self) -> Any:
        """Return a client that is logged in. A login is made for each look-up: its token may expire meanwhile."""
        client = imported("hvac", "vault").Client(
            url=self.address,
            namespace=self.namespace,
            verify=True if self.authority is None else self.authority,
            timeout=self.timeout_ms / 1000,
        )
        method = self.auth_method.lower()
        if method == _APP_ROLE and self.secret_id is not None:
            client.auth.approle.login(role_id=self.role, secret_id=self.secret_id.reveal().strip())
        elif method == _KUBERNETES:
            client.auth.kubernetes.login(role=self.role, jwt=_service_account())
        elif self.token is not None:
            client.token = self.token.reveal().strip()
        return client


def _require_secret(path: str) -> None:
    """Raise ConfigError for a path of Vault itself, such as that of this provider's own token.

    Only plain paths are taken: others could be spellings of these.
    """
    first, *others = path.split("/")
    is_plain = all(part not in ("", ".", "..") for part in (first, *others)) and not _NOT_PLAIN.search(path)
    if not is_plain or first.lower() in _OF_VAULT:
        raise ConfigError(
            f"{path} is no path of a secret: {', '.join(f'{each}/' for each in _OF_VAULT)} are Vault's own, and a path "
            "is written as it is, such as secret/data/shop"
        )


def _service_account() -> str:
    try:
        return _SERVICE_ACCOUNT.read_text().strip()
    except OSError as error:
        raise ConfigError(f"{_SERVICE_ACCOUNT} cannot be read: {error.strerror}; use another auth.method") from None
