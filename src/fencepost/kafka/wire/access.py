"""How the wire client connects and authenticates to brokers, from librdkafka's settings."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fencepost.kafka.wire.kafka_python import TOKEN_PROVIDER, kafka_python_conf

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
