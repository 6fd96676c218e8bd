"""Where the REST server listens: `http://host:port`, as Kafka Connect writes it."""

import ipaddress
import re
from dataclasses import dataclass

from fencepost.config.check import Check
from fencepost.config.errors import ConfigError

_LISTENER = re.compile(r"(?P<scheme>[a-zA-Z]+)://(?:\[(?P<v6>[0-9a-fA-F:.%]+)\]|(?P<host>[^:/\[\]]*)):(?P<port>\d+)/?")
_SCHEMES = ("http", "https")
_LARGEST_PORT = 65_535
_EXAMPLE = "write it like http://localhost:8083 (no host: all interfaces)"


@dataclass(frozen=True)
class Listener:
    """A scheme (http or https), a host ("" stands for all interfaces) and a port (0: any free one)."""

    scheme: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Listener":
        """Raise ConfigError with the reason."""
        match = _LISTENER.fullmatch(text.strip())
        if match is None:
            raise ConfigError(f"'{text}' is not a listener; {_EXAMPLE}")
        scheme, port = match["scheme"].lower(), int(match["port"])
        if scheme not in _SCHEMES:
            raise ConfigError(f"'{text}' has the protocol {scheme}; listeners speak {' or '.join(_SCHEMES)}")
        if port > _LARGEST_PORT:
            raise ConfigError(f"'{text}' has a port above {_LARGEST_PORT}")
        return cls(scheme, match["v6"] or match["host"] or "", port)

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine can reach it."""
        return is_loopback(self.host)

    @property
    def is_tls(self) -> bool:
        return self.scheme == "https"

    def __str__(self) -> str:
        return f"{self.scheme}://{bracketed(self.host)}:{self.port}"


def bracketed(host: str) -> str:
    """Return a host as URLs write it: IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host else host


def is_loopback(host: str) -> bool:
    """Return whether a host is an address or name of this machine, for itself alone."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _reason(text: str) -> str | None:
    try:
        Listener.parse(text)
    except ConfigError as error:
        return str(error)
    return None


def listener_urls(*, may_be_empty: bool) -> Check:
    """Return a check for a list of listeners."""

    def test(values: list[str]) -> str | None:
        if not values and not may_be_empty:
            return f"at least one listener is needed; {_EXAMPLE}"
        return next((reason for value in values if (reason := _reason(value)) is not None), None)

    return Check(test, "list of http://host:port or https://host:port")
