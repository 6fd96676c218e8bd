"""The names by which a worker is called that asks no credentials.

Anybody can have a name lead to a loopback address once a page of that name is loaded (DNS rebinding): for the browser,
the worker then belongs to the page's site, whose scripts may read and change everything. Such requests have the name in
`Host`. Addresses cannot be made to lead elsewhere.
"""

import ipaddress
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from fencepost.config.rest_access import RestAccessConfig
from fencepost.rest.access.audit import log_change
from fencepost.rest.access.need import is_change
from fencepost.rest.access_log import AccessLog
from fencepost.rest.errors import error_answer


class HostNames:
    """Refuses requests with other names than these; addresses and `localhost` are always taken."""

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
    """Return the name in a header `Host`, in lower case, without its port."""
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
