"""Addresses of callers: behind proxies that are trusted, those that the proxies say (`X-Forwarded-For`)."""

import ipaddress
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_HOME_PREFIX = 64


class TrustedProxies:
    """Replaces the address of a proxy by that of the client for which it sends a request.

    Each proxy adds the address that it was called from at the end of the header. What stands before the first address
    that is no trusted proxy's is what the client says, and counts for nothing.
    """

    def __init__(self, app: ASGIApp, networks: Sequence[Network]) -> None:
        self._app = app
        self._networks = networks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope.get("client"):
            scope = {**scope, "client": (self._client(scope["client"][0], Headers(scope=scope)), 0)}
        await self._app(scope, receive, send)

    def _client(self, address: str, headers: Headers) -> str:
        said = [each.strip() for line in headers.getlist("x-forwarded-for") for each in line.split(",")]
        while said and self._is_trusted(address) and _parsed(said[-1]) is not None:
            address = said.pop()
        return address

    def _is_trusted(self, address: str) -> bool:
        parsed = _parsed(address)
        return parsed is not None and any(parsed in each for each in self._networks)


def network_of(address: str) -> str:
    """Return the address that stands for all that one client may have: for IPv6 the /64, which is its home."""
    parsed = _parsed(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, _HOME_PREFIX), strict=False))
    return address if parsed is None else str(parsed)


def _parsed(address: str) -> _Address | None:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found
