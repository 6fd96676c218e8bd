"""The access log and the audit log."""

import json
import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fencepost.rest.access.need import caller_of
from fencepost.rest.path import sent_path
from fencepost.telemetry.loggers import REQUEST

access = logging.getLogger("fencepost.rest.access")


class AccessLog:
    """Logs each answered request to `fencepost.rest.access` at INFO.

    A line is in extended NCSA form, with the latency in milliseconds at its end.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not access.isEnabledFor(logging.INFO):
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status, sent_bytes = 500, 0

        async def count(message: Message) -> None:
            nonlocal status, sent_bytes
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                sent_bytes += len(message.get("body", b""))
            await send(message)

        scope.setdefault("state", {})  # shared with the layers inside, which keep the caller there
        try:
            await self._app(scope, receive, count)
        finally:
            latency_ms = round((time.perf_counter() - began) * 1000)
            line = _line(scope, datetime.now(UTC), status, sent_bytes, latency_ms)
            access.info("%s", line, extra={REQUEST: _fields(scope, status, sent_bytes, latency_ms)})


def _line(scope: Scope, at: datetime, status: int, sent_bytes: int, latency_ms: int) -> str:
    client = scope.get("client")
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    return (
        f"{client[0] if client else '-'} - {_user(scope)} [{at:%d/%b/%Y:%H:%M:%S %z}] "
        f'"{scope["method"]} {_escaped(_path(scope))} HTTP/{scope.get("http_version", "1.1")}" {status} {sent_bytes} '
        f'"{_quoted(headers, b"referer")}" "{_quoted(headers, b"user-agent")}" {latency_ms}'
    )


def _fields(scope: Scope, status: int, sent_bytes: int, latency_ms: int) -> dict[str, str | int | None]:
    client = scope.get("client")
    return {
        "user": caller_of(scope).name,
        "address": client[0] if client else None,
        "method": scope["method"],
        "path": _path(scope),
        "status": status,
        "bytes": sent_bytes,
        "latency_ms": latency_ms,
    }


def _user(scope: Scope) -> str:
    name = caller_of(scope).name
    return "-" if name is None else quote(name, safe="=,@+:/")


def _path(scope: Scope) -> str:
    path = sent_path(scope)
    query = scope.get("query_string", b"").decode("latin-1")
    return f"{path}?{query}" if query else path


def _quoted(headers: Mapping[bytes, str], name: bytes) -> str:
    return _escaped(headers.get(name, "-"))


def _escaped(text: str) -> str:
    """Escape quotes, and control characters, which could write to the terminal of whoever reads the log."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in escaped)


audit = logging.getLogger("fencepost.rest.audit")


def log_change(scope: Scope, user: str | None, status: int) -> None:
    """Log a change, a validation, or a look at logs or records: who, from where, and the answer.

    It is written by the worker that was asked, also if it forwards the request, and also if it refuses it. `user` is
    None if the worker does not ask who its callers are, or does not know this one.
    """
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
