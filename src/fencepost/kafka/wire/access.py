"""How the wire client connects and authenticates to brokers, with settings for kafka-python made of librdkafka's."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fencepost.config import ConfigError
from fencepost.config.client import load_pem, pem_of_key_store
from fencepost.kafka.setting.table import GSSAPI

TOKEN_PROVIDER = "sasl_oauth_token_provider"
"""The argument of kafka-python's clients that gives them tokens of OAUTHBEARER."""
_RENAMED = {
    "client.id": "client_id",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
}


def kafka_python_conf(conf: Mapping[str, Any]) -> dict[str, Any]:
    """Return kafka-python's arguments to connect as `conf` (librdkafka's names) does. Other settings are left out.

    Raises ConfigError for a key store that cannot be read.
    """
    result: dict[str, Any] = {new: conf[old] for old, new in _RENAMED.items() if conf.get(old) is not None}
    result["bootstrap_servers"] = [server.strip() for server in str(conf["bootstrap.servers"]).split(",")]
    for name in ("security_protocol", "sasl_mechanism"):
        if name in result:
            result[name] = str(result[name]).upper()
    protocol = str(result.get("security_protocol", ""))
    if protocol.startswith("SASL") and result.setdefault("sasl_mechanism", GSSAPI) == GSSAPI:
        result.setdefault("sasl_kerberos_service_name", "kafka")
    if protocol.endswith("SSL"):
        result["ssl_context"] = ssl_context(conf)
    if result.get("sasl_mechanism") == "OAUTHBEARER" and conf.get("sasl.oauthbearer.token.endpoint.url"):
        from fencepost.kafka.wire.oauth_tokens import (
            token_provider,  # kafka-python and an HTTP client, for those who use it
        )

        result[TOKEN_PROVIDER] = token_provider(conf)
    return result


def ssl_context(conf: Mapping[str, Any]) -> ssl.SSLContext:
    """Return librdkafka's TLS settings as Python's. Raises ConfigError for a key store that cannot be read."""
    context = ssl.create_default_context(cafile=conf.get("ssl.ca.location"), cadata=conf.get("ssl.ca.pem"))
    if str(conf.get("ssl.endpoint.identification.algorithm", "https")).lower() == "none":
        context.check_hostname = False
    password = conf.get("ssl.key.password")
    if "ssl.certificate.location" in conf:
        key = conf.get("ssl.key.location")
        context.load_cert_chain(conf["ssl.certificate.location"], key, password)
    elif "ssl.keystore.location" in conf:  # one in PEM has become ssl.certificate.location
        load_pem(context, _pem_of(str(conf["ssl.keystore.location"]), conf.get("ssl.keystore.password")), None)
    elif "ssl.certificate.pem" in conf:
        load_pem(context, f"{conf['ssl.certificate.pem']}\n{conf.get('ssl.key.pem', '')}".encode(), password)
    return context


def _pem_of(path: str, password: str | None) -> bytes:
    with open(path, "rb") as store:
        data = store.read()
    try:
        pem = pem_of_key_store(data, password)
    except ValueError as error:
        raise ConfigError(f"ssl.keystore.location: {path} cannot be read as PKCS12: {error}") from None
    if pem is None:
        raise ConfigError(f"ssl.keystore.location: {path} has no key with a certificate")
    return pem


Address = tuple[str, int]

_CLIENT_ID = "fencepost-batch"
_PORT = "9092"
_CONNECT_S = 30.0
_SOCKET_S = 60.0


@dataclass(frozen=True)
class Access:
    """The bootstrap servers, and the settings of every connection. Secrets are not in `repr` (E11).

    `sasl` holds kafka-python's arguments for the mechanism. `answer_s` is the time-out of an answer.
    """

    servers: tuple[Address, ...]
    client_id: str = _CLIENT_ID
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    mechanism: str | None = None
    sasl: Mapping[str, Any] = field(default_factory=dict, repr=False)
    connect_s: float = _CONNECT_S
    answer_s: float = _SOCKET_S

    @property
    def token(self) -> str:
        """Return the cached OAuth token; empty if none was fetched."""
        provider = self.sasl.get(TOKEN_PROVIDER)
        return "" if provider is None else str(provider.newest)

    def refused(self, token: str) -> None:
        """Discard a token that a broker has refused."""
        provider = self.sasl.get(TOKEN_PROVIDER)
        if provider is not None:
            provider.forget(token)

    @classmethod
    def of(cls, conf: Mapping[str, Any]) -> "Access":
        """Raise ConfigError or OSError for a key store that cannot be read, ValueError for a port that is no number."""
        given = kafka_python_conf(conf)
        has_sasl = str(given.get("security_protocol", "")).startswith("SASL")
        return cls(
            tuple(_address(server) for server in given["bootstrap_servers"]),
            str(conf.get("client.id", _CLIENT_ID)),
            given.get("ssl_context"),
            given.get("sasl_mechanism") if has_sasl else None,
            {key: value for key, value in given.items() if key.startswith("sasl_")},
            _seconds(conf, "socket.connection.setup.timeout.ms", _CONNECT_S),
            _seconds(conf, "socket.timeout.ms", _SOCKET_S),
        )


def addresses_of(servers: str) -> list[Address]:
    """Return the addresses in `bootstrap.servers`."""
    return [_address(each.strip()) for each in servers.split(",") if each.strip()]


def _seconds(conf: Mapping[str, Any], key: str, default_s: float) -> float:
    return float(conf[key]) / 1000 if key in conf else default_s


def _address(server: str) -> Address:
    host, _, port = server.rpartition("://")[2].rpartition(":")
    if not host or port.endswith("]"):
        host, port = server.rpartition("://")[2], _PORT
    return host.strip("[]"), int(port)
