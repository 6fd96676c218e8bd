"""Secrets of Google Cloud's Secret Manager: `${gcp:shop-kafka:password}`."""

from typing import Any

from fencepost.api import ConfigError, RetriableError, one_of, setting
from fencepost.builtin.provider.store import SecretStore, StoredSecret, imported

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
