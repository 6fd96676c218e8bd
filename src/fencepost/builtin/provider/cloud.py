"""Secrets of the stores of clouds.

- AWS Secrets Manager: `${aws:shop/kafka:password}`
- Azure Key Vault: `${azure:shop-kafka-password}`
- Google Cloud's Secret Manager: `${gcp:shop-kafka:password}`
"""

import base64
from functools import cached_property
from typing import Any

from fencepost.api import ConfigError, RetriableError, one_of, setting
from fencepost.builtin.provider.store import SecretStore, StoredSecret, imported, until_ms

_TIMEOUT_S = 30.0
"""How long one request may take. The library would repeat it for a minute; what looks values up tries again itself."""


class GcpConfigProvider(SecretStore):
    """The newest version of a secret, or another if the name ends in `/versions/N`.

    A name is that of a secret of `project.id`, or begins with `projects/`. Credentials are Google's application default
    credentials.
    """

    project: str | None = setting("project.id", default=None, doc="The project of secrets that are named alone.")
    endpoint: str | None = setting("endpoint", default=None, doc="Another address of the service, without a scheme.")
    transport: str = setting("transport", default="grpc", check=one_of("grpc", "rest"), doc="`grpc` or `rest`.")

    def secret(self, name: str) -> StoredSecret | None:
        errors = imported("google.api_core.exceptions", "gcp")
        credentials = imported("google.auth.exceptions", "gcp")
        try:
            answer = self._client().access_secret_version(name=self._full(name), retry=None, timeout=_TIMEOUT_S)
        except errors.NotFound:
            return None
        except (errors.ServerError, errors.TooManyRequests, errors.RetryError, credentials.TransportError) as error:
            raise RetriableError(f"Secret Manager does not answer for {name}: {type(error).__name__}") from None
        except errors.GoogleAPICallError as error:
            raise ConfigError(
                f"Secret Manager refuses {name}: {type(error).__name__}; correct the name, or grant "
                "roles/secretmanager.secretAccessor"
            ) from None
        except credentials.GoogleAuthError as error:
            raise ConfigError(f"no credentials for Secret Manager: {error}") from None
        try:
            return StoredSecret(answer.payload.data.decode())
        except UnicodeDecodeError:
            raise ConfigError(f"the secret {name} is not text") from None

    def _full(self, name: str) -> str:
        if not name.startswith("projects/"):
            if self.project is None:
                raise ConfigError(f"{name} is in no project: set project.id, or write projects/PROJECT/secrets/{name}")
            name = f"projects/{self.project}/secrets/{name}"
        return name if "/versions/" in name else f"{name}/versions/latest"

    def _client(self) -> Any:
        manager = imported("google.cloud.secretmanager", "gcp")
        options = None if self.endpoint is None else {"api_endpoint": self.endpoint}
        return manager.SecretManagerServiceClient(transport=self.transport, client_options=options)


class AzureConfigProvider(SecretStore):
    """The newest version of a secret. Credentials are those of azure-identity's DefaultAzureCredential.

    If a secret has an expiry date, connectors and tasks look it up again then.
    """

    vault: str = setting("vault.url", doc="The URL of the vault, such as https://shop.vault.azure.net.")

    def secret(self, name: str) -> StoredSecret | None:
        errors = imported("azure.core.exceptions", "azure")
        try:
            found = self._client().get_secret(name)
        except errors.ResourceNotFoundError:
            return None
        except errors.ClientAuthenticationError as error:
            raise ConfigError(f"Key Vault does not know this process: {_first_line(error)}") from None
        except (errors.ServiceRequestError, errors.ServiceResponseError):
            raise RetriableError(f"Key Vault at {self.vault} does not answer") from None
        except errors.HttpResponseError as error:
            if error.status_code is None or error.status_code >= 500 or error.status_code == 429:
                raise RetriableError(f"Key Vault at {self.vault} does not answer: {error.status_code}") from None
            raise ConfigError(
                f"Key Vault refuses {name} ({error.status_code}): correct the name, or grant Key Vault Secrets User"
            ) from None
        expires = found.properties.expires_on
        return StoredSecret(str(found.value), None if expires is None else until_ms(expires))

    def _client(self) -> Any:
        secrets = imported("azure.keyvault.secrets", "azure")
        return secrets.SecretClient(vault_url=self.vault, credential=self._credential)

    @cached_property
    def _credential(self) -> Any:
        return imported("azure.identity", "azure").DefaultAzureCredential()


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


_ABSENT = "ResourceNotFoundException"
_PASSING = frozenset(
    {"InternalServiceError", "ThrottlingException", "RequestLimitExceeded", "ServiceUnavailable", "RequestTimeout"}
)


class AwsConfigProvider(SecretStore):
    """Credentials are found as by every AWS client: environment, profile, role of the machine or pod.

    If a secret rotates, connectors and tasks look it up again after the next rotation; that takes the permission
    `secretsmanager:DescribeSecret`.
    """

    region: str | None = setting("region", default=None, doc="The region; unset: that of the environment or profile.")
    endpoint: str | None = setting("endpoint.url", default=None, doc="Another address of the service.")
    prefix: str = setting(
        "secret.prefix",
        default="",
        doc="Is put before each name, such as the ARN of another account up to `:secret:`: a reference's path has no "
        "colons.",
    )

    def secret(self, name: str) -> StoredSecret | None:
        errors = imported("botocore.exceptions", "aws")
        name = f"{self.prefix}{name}"
        try:
            client = self._client()
            answer = client.get_secret_value(SecretId=name)
        except errors.ClientError as error:
            _ensure_absent(name, error)
            return None
        except (errors.NoCredentialsError, errors.NoRegionError, errors.PartialCredentialsError) as error:
            raise ConfigError(f"{error}: set region, and give this process credentials") from None
        except errors.BotoCoreError as error:
            raise RetriableError(f"Secrets Manager does not answer: {type(error).__name__}") from None
        text = answer.get("SecretString")
        if text is None:
            text = base64.b64encode(answer["SecretBinary"]).decode()
        return StoredSecret(text, _until_rotation_ms(client, name))

    def _client(self) -> Any:
        session = imported("boto3.session", "aws").Session()  # clients of one session cannot be made by several threads
        return session.client("secretsmanager", region_name=self.region, endpoint_url=self.endpoint)


def _ensure_absent(name: str, error: Any) -> None:
    code = str(error.response.get("Error", {}).get("Code"))
    if code == _ABSENT:
        return
    if code in _PASSING:
        raise RetriableError(f"Secrets Manager does not answer for {name}: {code}")
    raise ConfigError(
        f"Secrets Manager refuses {name}: {code}; correct the name, or allow secretsmanager:GetSecretValue"
    )


def _until_rotation_ms(client: Any, name: str) -> int | None:
    """Return how long it is until the next rotation; None if there is none, or this principal may not know."""
    try:
        found = client.describe_secret(SecretId=name)
    except imported("botocore.exceptions", "aws").ClientError:
        return None
    next_at = found.get("NextRotationDate")
    if not found.get("RotationEnabled") or next_at is None:
        return None
    return until_ms(next_at)
