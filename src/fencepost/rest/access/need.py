"""What each path of the API needs: the one table of paths and roles.

A path that is not in the table is refused to everybody. `GET /connectors` is for anyone who is known, and shows only
the connectors that the caller may view.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from fencepost.rest.access.principal import Role

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
