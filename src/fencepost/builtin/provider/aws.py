"""Secrets of AWS Secrets Manager: `${aws:shop/kafka:password}`."""

import base64
from typing import Any

from fencepost.api import ConfigError, RetriableError, setting
from fencepost.builtin.provider.store import SecretStore, StoredSecret, imported, until_ms

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
