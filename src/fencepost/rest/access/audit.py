"""The audit log: a line for each change, validation, or look at logs and dead letters: who, from where, the answer.

It is written by the worker that was asked, also if it forwards the request, and also if it refuses it.
"""

import json
import logging

from starlette.types import Scope

from fencepost.rest.path import sent_path
from fencepost.telemetry.subject import REQUEST

audit = logging.getLogger("fencepost.rest.audit")


def log_change(scope: Scope, user: str | None, status: int) -> None:
    """Log a request. `user` is None if the worker does not ask who its callers are, or does not know this one."""
    client = scope.get("client")
    fields = {
        "user": user,
        "address": client[0] if client else None,
        "method": scope["method"],
        "path": sent_path(scope),
        "status": status,
    }
    audit.info(
        "user=%s address=%s method=%s path=%s status=%d",
        "-" if user is None else json.dumps(user),
        fields["address"] or "-",
        scope["method"],
        json.dumps(fields["path"]),
        status,
        extra={REQUEST: fields},
    )
