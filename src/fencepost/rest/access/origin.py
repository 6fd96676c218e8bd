"""Where a request comes from: its address behind proxies, the page of a browser, the name that it calls."""

import ipaddress
from collections.abc import Collection, Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from fencepost.config.rest import RestAccessConfig
from fencepost.rest.access.access_log import AccessLog, log_change
from fencepost.rest.access.need import is_change
from fencepost.rest.response import error_answer

_OWN = ("same-origin", "none")


def is_of_own_site(headers: Headers) -> bool:
    """Return whether a request comes from a page of this worker, from its user directly, or from no browser.

    A browser says which site a page is of, except to plain http on other machines. It then still names the page's
    origin, at least for what is no GET. A proxy that gives the worker another `Host` passes on the one that it was
    called by; a page cannot add that header to a request to another site without asking first (CORS). Programs other
    than browsers send none of these headers.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site in _OWN
    called = (headers.get("host", ""), *headers.get("x-forwarded-host", "").split(","))
    return origin is None or origin.partition("://")[2].lower() in {each.strip().lower() for each in called if each}


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


class HostNames:
    """Refuses requests with other names than these; addresses and `localhost` are always taken.

    It is for workers that ask no credentials. Anybody can have a name lead to a loopback address once a page of that
    name is loaded (DNS rebinding): for the browser, the worker then belongs to the page's site, whose scripts may read
    and change everything. Such requests have the name in `Host`. Addresses cannot be made to lead elsewhere.
    """

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        """`names` are in lower case."""
        self._app = app
        self._refusing = AccessLog(_refuse)
        self._names = frozenset(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_own = scope["type"] != "http" or self._is_own(_name_of(Headers(scope=scope).get("host", "")))
        await (self._app if is_own else self._refusing)(scope, receive, send)

    def _is_own(self, name: str) -> bool:
        # Only HTTP/1.0 knows requests without a name; browsers always send one.
        return not name or f".{name}".endswith(".localhost") or name in self._names or _is_address(name)


def _name_of(host: str) -> str:
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return name.lower().removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    text = f"This worker is not called by this name; if it is, add the name to {RestAccessConfig.key_of('host_names')}"
    if is_change(scope["method"], scope["path"]):
        log_change(scope, None, 403)
    await error_answer(403, text)(scope, receive, send)
