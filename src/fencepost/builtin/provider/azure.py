"""Secrets of Azure Key Vault: `${azure:shop-kafka-password}`."""

from functools import cached_property
from typing import Any

from fencepost.api import ConfigError, RetriableError, setting
from fencepost.builtin.provider.store import SecretStore, StoredSecret, imported, until_ms


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
