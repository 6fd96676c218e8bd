"""The caller of a request, as handlers see it."""

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import unquote

from fastapi import Depends, Request
from starlette.types import Scope

from fencepost.cluster.errors import ForbiddenError
from fencepost.rest.access.need import NEEDS, Need, Where
from fencepost.rest.access.principal import EVERYTHING, Principal, Role, Rules

CALLER = "x-fencepost-caller"
"""The header with which another worker, which signs it, says whom it has identified."""

_KEPT = "fencepost.caller"
_NOBODY = Principal("anonymous")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request, and what it may do.

    Without a principal, the worker has not asked who it is. With `is_exempt`, the path needs none: it is open, or other
    workers sign their requests to it. `is_forwarded`: another worker has identified the caller.
    """

    principal: Principal | None = None
    rules: Rules = EVERYTHING
    is_exempt: bool = False
    is_forwarded: bool = False

    @property
    def name(self) -> str | None:
        return None if self.principal is None else self.principal.name

    def may(self, role: Role, connector: str) -> bool:
        """Return whether the caller has a role for a connector, which need not exist."""
        return self.rules.allow(self._who, role, connector)

    def may_somewhere(self, role: Role) -> bool:
        """Return whether the caller has a role for any connectors."""
        return self.rules.allow_somewhere(self._who, role)

    def ensure(self, role: Role, connector: str) -> None:
        """Raise ForbiddenError unless the caller has a role for a connector."""
        if not self.may(role, connector):
            # Not its name: most names that somebody without a role asks for are none of a connector.
            raise ForbiddenError(f"{self._who.name} needs the role {role.name.lower()} for this connector")

    def visible(self, connectors: Iterable[str]) -> list[str]:
        """Return those that the caller may view."""
        return [name for name in connectors if self.may(Role.VIEW, name)]

    def ensure_need(self, need: Need, connector: str) -> None:
        """Raise ForbiddenError unless the caller has what a path needs; `connector` is the one in the path."""
        role, who = need.role, self._who
        if need.where is Where.NAMED:
            self.ensure(role, connector)
        elif need.where is Where.SOMEWHERE and not self.may_somewhere(role):
            raise ForbiddenError(f"{who.name} needs the role {role.name.lower()} for some connectors")
        elif need.where is Where.EVERYWHERE and not self.rules.allow_everywhere(who, role):
            raise ForbiddenError(f"{who.name} needs the role {role.name.lower()} for all connectors (the pattern *)")

    @property
    def _who(self) -> Principal:
        return self.principal or _NOBODY


def keep_caller(scope: Scope, caller: Caller) -> None:
    """Keep the caller of a request for its handler and for the layers around it."""
    scope.setdefault("state", {})[_KEPT] = caller


def caller_of(scope: Scope) -> Caller:
    """Return the caller of a request; one that may do nothing if nobody has kept one."""
    kept: Caller = scope.get("state", {}).get(_KEPT) or Caller(rules=Rules(()))
    return kept


async def authorize(request: Request) -> None:
    """Raise ForbiddenError unless the caller may use this route. It is called before every handler."""
    need = NEEDS.get(f"{request.method} {request.scope['route'].path}")
    if need is None:
        raise ForbiddenError(f"No role may use {request.method} {request.url.path}")
    caller = caller_of(request.scope)
    if not caller.is_exempt and need.where is not Where.SIGNED:
        caller.ensure_need(need, unquote(request.path_params.get("name", "")))


async def _caller(request: Request) -> Caller:
    return caller_of(request.scope)


Asking = Annotated[Caller, Depends(_caller)]


def encoded(principal: Principal) -> str:
    """Return a principal as the value of a header."""
    fields = {"name": principal.name, "groups": sorted(principal.groups)}
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode()


def decoded(text: str) -> Principal:
    """Return the principal in a header. Raises ForbiddenError."""
    try:
        fields = json.loads(base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True))
        return Principal(str(fields["name"]), frozenset(map(str, fields["groups"])))
    except (ValueError, TypeError, KeyError):
        raise ForbiddenError("The request names its caller in a form that no worker sends") from None
