"""What each path of the API needs: the one table of paths and roles.

A path that is not in the table is refused to everybody. `GET /connectors` is for anyone who is known, and shows only
the connectors that the caller may view. `Caller` is who sends a request, as handlers see it.
"""

import base64
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated
from urllib.parse import unquote

from fastapi import Depends, Request
from starlette.types import Scope

from fencepost.cluster.errors import ForbiddenError
from fencepost.rest.access.principal import EVERYTHING, Principal, Role, Rules

_CHECKS = re.compile(
    r"PUT /connector-plugins/[^/]+/config/validate"
    r"|POST /ui/(new/check|connectors/[^/]+/(edit/check|offsets/preview|dead-letters/confirm))"
)
_LOOKS = re.compile(
    r"GET (/ui)?/connectors/[^/]+/(logs|dead-letters|topics/[^/]+(/records)?)|GET /topics/[^/]+/records"
    r"|PUT /connector-plugins/[^/]+/config/validate|POST /ui/(new|connectors/[^/]+/edit)/check"
)
READING = ("GET", "HEAD", "OPTIONS")
"""The methods that change nothing."""

CALLER = "x-fencepost-caller"
"""The header with which another worker, which signs it, says whom it has identified."""

_KEPT = "fencepost.caller"
_NOBODY = Principal("anonymous")


class Where(Enum):
    """For which connectors a role is needed."""

    NOWHERE = "nowhere"  # whoever is known
    NAMED = "named"  # the connector that the path names
    SOMEWHERE = "somewhere"  # any connectors; the handler may ask for more
    EVERYWHERE = "everywhere"
    SIGNED = "signed"  # another worker, which signs its requests


@dataclass(frozen=True, slots=True)
class Need:
    """A role, and where it is needed."""

    where: Where
    role: Role = Role.VIEW


_KNOWN = Need(Where.NOWHERE)
_SIGNED = Need(Where.SIGNED)
_VIEW, _OPERATE, _EDIT = (Need(Where.NAMED, role) for role in (Role.VIEW, Role.OPERATE, Role.EDIT))
_EDIT_SOMEWHERE = Need(Where.SOMEWHERE, Role.EDIT)
_VIEW_ALL, _EDIT_ALL, _ADMIN_ALL = (Need(Where.EVERYWHERE, role) for role in (Role.VIEW, Role.EDIT, Role.ADMIN))

NEEDS: Mapping[str, Need] = {
    "GET /": _KNOWN,
    "GET /health": _KNOWN,
    "GET /kafka": _KNOWN,
    "GET /metrics": _VIEW_ALL,
    "GET /openapi.json": _KNOWN,
    "GET /docs": _KNOWN,
    "GET /docs/guide": _KNOWN,
    "GET /docs/guide/{file:path}": _KNOWN,
    "GET /connectors": _KNOWN,
    "POST /connectors": _EDIT_SOMEWHERE,
    "GET /connectors/{name}": _VIEW,
    "DELETE /connectors/{name}": _EDIT,
    "GET /connectors/{name}/config": _VIEW,
    "PUT /connectors/{name}/config": _EDIT,
    "PATCH /connectors/{name}/config": _EDIT,
    "GET /connectors/{name}/status": _VIEW,
    "PUT /connectors/{name}/pause": _OPERATE,
    "PUT /connectors/{name}/resume": _OPERATE,
    "PUT /connectors/{name}/stop": _OPERATE,
    "POST /connectors/{name}/restart": _OPERATE,
    "GET /connectors/{name}/tasks": _VIEW,
    "GET /connectors/{name}/tasks/{task}/status": _VIEW,
    "POST /connectors/{name}/tasks/{task}/restart": _OPERATE,
    "GET /connectors/{name}/topics": _VIEW,
    "PUT /connectors/{name}/topics/reset": _OPERATE,
    "GET /connectors/{name}/offsets": _VIEW,
    "GET /connectors/{name}/gaps": _VIEW,
    "PATCH /connectors/{name}/offsets": _EDIT,
    "DELETE /connectors/{name}/offsets": _EDIT,
    "GET /connectors/{name}/dead-letters": _OPERATE,
    "GET /connectors/{name}/dead-letters/resend": _OPERATE,
    "POST /connectors/{name}/dead-letters/resend": _EDIT,
    "GET /connectors/{name}/figures": _VIEW,
    "GET /connectors/{name}/logs": _OPERATE,
    "GET /connectors/{name}/lineage": _VIEW,
    "GET /lineage": _KNOWN,
    "GET /connectors/{name}/topics/{topic}/records": _OPERATE,
    "GET /topics": _EDIT_ALL,
    "GET /topics/{topic}/records": _EDIT_ALL,
    "GET /internal/figures": _SIGNED,
    "GET /internal/past": _SIGNED,
    "GET /internal/logs": _SIGNED,
    "POST /connectors/{name}/tasks": _SIGNED,
    "PUT /connectors/{name}/fence": _SIGNED,
    "GET /connector-plugins": _KNOWN,
    "GET /connector-plugins/{plugin}/config": Need(Where.SOMEWHERE),
    "PUT /connector-plugins/{plugin}/config/validate": _EDIT_SOMEWHERE,
    "GET /retention": _VIEW_ALL,
    "GET /retention/{topic}": _VIEW_ALL,
    "GET /ui": _KNOWN,
    "GET /ui/rows": _KNOWN,
    "GET /ui/assets/{file}": _KNOWN,
    "GET /ui/connectors/{name}": _VIEW,
    "GET /ui/connectors/{name}/live": _VIEW,
    "POST /ui/connectors/{name}/pause": _OPERATE,
    "POST /ui/connectors/{name}/resume": _OPERATE,
    "POST /ui/connectors/{name}/stop": _OPERATE,
    "POST /ui/connectors/{name}/restart": _OPERATE,
    "POST /ui/connectors/{name}/tasks/{task}/restart": _OPERATE,
    "GET /ui/connectors/{name}/delete": _EDIT,
    "POST /ui/connectors/{name}/delete": _EDIT,
    "GET /ui/connectors/{name}/config": _VIEW,
    "GET /ui/connectors/{name}/edit": _EDIT,
    "POST /ui/connectors/{name}/edit": _EDIT,
    "POST /ui/connectors/{name}/edit/check": _EDIT,
    "GET /ui/connectors/{name}/topics/{topic}": _OPERATE,
    "GET /ui/connectors/{name}/offsets": _VIEW,
    "POST /ui/connectors/{name}/offsets/preview": _EDIT,
    "POST /ui/connectors/{name}/offsets": _EDIT,
    "GET /ui/connectors/{name}/logs": _OPERATE,
    "GET /ui/connectors/{name}/logs/rows": _OPERATE,
    "GET /ui/connectors/{name}/dead-letters": _VIEW,
    "GET /ui/connectors/{name}/dead-letters/progress": _OPERATE,
    "POST /ui/connectors/{name}/dead-letters/confirm": _EDIT,
    "POST /ui/connectors/{name}/dead-letters/resend": _EDIT,
    "GET /ui/new": _EDIT_SOMEWHERE,
    "POST /ui/new": _EDIT_SOMEWHERE,
    "POST /ui/new/check": _EDIT_SOMEWHERE,
    "GET /ui/lineage": _KNOWN,
    "GET /ui/workers": _KNOWN,
    "GET /ui/workers/rows": _KNOWN,
    "GET /ui/retention": _VIEW_ALL,
    "GET /admin/loggers": _ADMIN_ALL,
    "GET /admin/loggers/{logger}": _ADMIN_ALL,
    "PUT /admin/loggers/{logger}": _ADMIN_ALL,
}


_SIGNED_ROUTES = [route for route, need in NEEDS.items() if need.where is Where.SIGNED]
_INTERNAL = re.compile("|".join(re.sub(r"\{\w+\}", "[^/]+", route) for route in _SIGNED_ROUTES))


def is_between_workers(method: str, path: str) -> bool:
    """Return whether a request to this path, as the router sees it, is another worker's, and has to be signed."""
    return _INTERNAL.fullmatch(f"{method} {path}") is not None


def is_audited(method: str, path: str) -> bool:
    """Return whether the audit log has a request: a change, reading records or logs, or a validation.

    A validation runs plug-ins, looks secrets up and reaches other systems.
    """
    return is_change(method, path) or _LOOKS.fullmatch(f"{method} {path}") is not None


def is_change(method: str, path: str) -> bool:
    """Return whether a user's request to this path changes something."""
    is_other = is_between_workers(method, path) or _CHECKS.fullmatch(f"{method} {path}") is not None
    return method not in READING and not is_other


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
