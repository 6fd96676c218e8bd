"""The TLS of REST listeners: `listeners.https.ssl.*`, and `admin.listeners.https.ssl.*`."""

from collections.abc import Mapping

from fencepost.config.check import each, one_of
from fencepost.config.client import SecurityConfig
from fencepost.config.errors import ConfigError
from fencepost.config.setting import LOW, setting

LISTENERS_HTTPS, ADMIN_HTTPS = "listeners.https.", "admin.listeners.https."
_PROTOCOLS = ("TLSv1.2", "TLSv1.3")


class ListenerTlsConfig(SecurityConfig):
    """The `ssl.*` settings of listeners, without their prefix."""

    client_auth: str = setting(
        "ssl.client.auth",
        default="none",
        check=one_of("required", "requested", "none"),
        importance=LOW,
        doc="Whether callers are asked for a certificate.",
    )
    enabled_protocols: list[str] = setting(
        "ssl.enabled.protocols",
        default=list(_PROTOCOLS),
        check=each(one_of(*_PROTOCOLS, ignore_case=False)),
        importance=LOW,
        doc="Versions of TLS.",
    )

    @property
    def asks_for_certificates(self) -> bool:
        return self.client_auth.lower() != "none"

    @property
    def requires_certificates(self) -> bool:
        return self.client_auth.lower() == "required"


def tls_config(originals: Mapping[str, object], prefix: str) -> ListenerTlsConfig:
    """Return the settings under a prefix; those without one if it has none, as in Kafka Connect.

    Raises ConfigError, with the keys of the file.
    """
    prefixed = {k.removeprefix(prefix): v for k, v in originals.items() if k.startswith(prefix)}
    used, shown = (prefixed, prefix) if prefixed else (dict(originals), "")
    given = {key: value for key, value in used.items() if key in ListenerTlsConfig.settings()}
    try:
        return ListenerTlsConfig(given)
    except ConfigError as error:
        raise ConfigError(
            [text.replace("configuration ssl.", f"configuration {shown}ssl.") for text in error.messages]
        ) from None
