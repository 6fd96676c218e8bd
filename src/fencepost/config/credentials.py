"""Credentials belong to a cluster: those of a file do not follow a connector to other brokers (docs/decisions/0109)."""

from collections.abc import Mapping
from typing import Any

from fencepost.config.client import ConnectionConfig, SecurityConfig
from fencepost.config.raw import names_in

_SERVERS = ConnectionConfig.key_of("bootstrap_servers")
PROTOCOL = SecurityConfig.key_of("security_protocol")
_PLAINTEXT, _SASL_IN_CLEAR = "PLAINTEXT", "SASL_PLAINTEXT"
_CREDENTIALS = ("sasl.", "ssl.keystore.", "ssl.key.")


def is_elsewhere(shared: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    """Say whether a connector's own settings of a client name brokers that are not among those of the shared ones."""
    servers = own.get(_SERVERS)
    return servers is not None and not _servers(servers) <= _servers(shared.get(_SERVERS, ""))


def is_weaker(shared: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    """Say whether own settings would send the shared credentials in clear, which shared ones send through TLS."""
    return _protocol(own) == _SASL_IN_CLEAR and _protocol(shared) not in (_PLAINTEXT, _SASL_IN_CLEAR, "")


def combined(shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a connector's client: the shared ones of the workers' file, and its own, which win.

    Nothing that identifies the workers is among them if the client goes to other brokers, or would do so in clear.
    """
    if is_elsewhere(shared, own) or is_weaker(shared, own):
        shared = {key: value for key, value in shared.items() if not key.startswith(_CREDENTIALS)}
    return {**shared, **own}


def lacks_credentials(shared: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    """Say whether a client that goes elsewhere says nothing about its security, where the workers have credentials."""
    has_own = PROTOCOL in own or any(key.startswith(_CREDENTIALS) for key in own)
    return is_elsewhere(shared, own) and _protocol(shared) not in (_PLAINTEXT, "") and not has_own


def _servers(value: object) -> set[str]:
    return set(map(str, value)) if isinstance(value, list | tuple) else set(names_in(str(value)))


def _protocol(properties: Mapping[str, Any]) -> str:
    return str(properties.get(PROTOCOL) or "").strip().upper()
