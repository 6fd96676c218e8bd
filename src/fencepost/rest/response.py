"""Answers as JSON, and their headers: those of all answers, CORS, and warnings about keys of a connector's config.

Failures become answers, which all have the same kind of body.
"""

import csv
import json
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass
from email.utils import formatdate
from enum import Enum
from functools import cache
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fencepost.cluster.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    NotReadyError,
    OperationError,
)
from fencepost.cluster.info import KeyWarning
from fencepost.rest.body import without_secrets
from fencepost.secret.known import hide

_ACTIONS = ("set", "add", "setDate", "addDate")
_RULE = re.compile(r"\s*(\w+)\s+([!#$%&'*+.^`|~\w-]+)\s*:\s*(.*?)\s*", re.DOTALL)

log = logging.getLogger(__name__)

_STATUS_OF: dict[type[OperationError], int] = {
    BadRequestError: 400,
    ForbiddenError: 403,
    NotFoundError: 404,
    AlreadyExistsError: 409,
    ConflictError: 409,
    NotReadyError: 503,
    OperationError: 500,
}


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """`action` is set, add, setDate or addDate; the value of a date is milliseconds from now."""

    action: str
    name: str
    value: str


NO_SNIFF = HeaderRule("set", "X-Content-Type-Options", "nosniff")


def parse_header_rules(text: str) -> tuple[HeaderRule, ...]:
    """Parse rules such as `set X-Frame-Options: DENY, "add Cache-Control: no-cache, no-store"`.

    A rule that contains a comma is in double quotes. Raises ValueError, which names the wrong rule and the reason.
    """
    if not text.strip():
        return ()
    (rules,) = csv.reader([text.replace("\n", " ")], skipinitialspace=True)
    return tuple(_parse_rule(rule) for rule in rules)


def _parse_rule(text: str) -> HeaderRule:
    match = _RULE.fullmatch(text)
    if match is None:
        raise ValueError(f"header rule '{text}' is not of the form '[action] [name]: [value]'")
    rule = HeaderRule(*match.groups())
    if rule.action not in _ACTIONS:
        raise ValueError(f"header rule '{text}' has action '{rule.action}'; give one of {', '.join(_ACTIONS)}")
    if rule.action.endswith("Date") and not re.fullmatch(r"-?\d{1,15}", rule.value):
        raise ValueError(f"header rule '{text}' needs milliseconds from now, not '{rule.value}'")
    if not rule.value.isascii() or not rule.value.isprintable():
        raise ValueError(f"header rule '{text}' contains characters that a header cannot contain")
    return rule


class ResponseHeaders:
    """Applies header rules to every answer."""

    def __init__(self, app: ASGIApp, rules: Sequence[HeaderRule], now_s: Callable[[], float]) -> None:
        self._app = app
        self._rules = rules
        self._now_s = now_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def add_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._apply(MutableHeaders(scope=message))
            await send(message)

        await self._app(scope, receive, add_headers)

    def _apply(self, headers: MutableHeaders) -> None:
        for rule in self._rules:
            value = rule.value
            if rule.action.endswith("Date"):
                value = formatdate(self._now_s() + int(value) / 1000, usegmt=True)
            if rule.action.startswith("set"):
                headers[rule.name] = value
            else:
                headers.append(rule.name, value)


def origins_of(text: str) -> re.Pattern[str] | None:
    """Return a pattern for a comma-separated list of origins, in which `*` matches anything; None if it is empty."""
    patterns = [re.escape(origin).replace(r"\*", ".*") for origin in _listed(text)]
    return re.compile("|".join(patterns)) if patterns else None


def allow_origins(app: ASGIApp, origins: re.Pattern[str], methods: str) -> ASGIApp:
    """Return `app` with CORS for these origins.

    Without `methods`, GET, POST and HEAD are allowed, as in Kafka Connect. Unlike there, pages of these may send
    credentials in `Authorization`.
    """
    return CORSMiddleware(
        app,
        allow_origin_regex=origins.pattern,
        allow_methods=_listed(methods) or ["GET", "POST", "HEAD"],
        allow_headers=["X-Requested-With", "Content-Type", "Accept", "Origin", "Authorization"],
    )


def _listed(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def json_response(content: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return an answer that nobody on the way keeps: it may have configs."""
    kept = {"cache-control": "no-store", **(headers or {})}
    return Response(to_json(content), status, kept, media_type="application/json")


def empty_response(status: int) -> Response:
    return Response(status_code=status)


def to_json(content: object) -> bytes:
    """Render plain values and those of `cluster/info.py`, also inside lists and dicts."""
    try:
        return orjson.dumps(content, _plain, orjson.OPT_PASSTHROUGH_DATACLASS)
    except TypeError:
        # A trace may hold lone surrogates (a file name that is not UTF-8), which orjson refuses.
        return json.dumps(content, default=_plain).encode("ascii")


def _plain(value: object) -> Any:
    if isinstance(value, Enum):
        return value.value
    if not is_dataclass(value):
        raise TypeError(f"{type(value).__name__} cannot be written as JSON")
    kind: type = type(value)
    return _adapter(kind).dump_python(value, by_alias=True, warnings=False)


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


WARNINGS = "fencepost-warnings"
_MOST_CHARACTERS = 4000  # many servers and clients refuse headers of 8 KB


def warning_header(warnings: Sequence[KeyWarning]) -> dict[str, str]:
    """Return the header: a JSON list of texts, in ASCII; no header if there are no warnings."""
    texts = [one.message for one in warnings]
    while texts and len(json.dumps(texts)) > _MOST_CHARACTERS:
        texts = [*texts[:-2], f"{len(warnings) - len(texts) + 2} more"]
    return {WARNINGS: json.dumps(texts)} if texts else {}


def install_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(OperationError, _operation_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _unfit_path)
    app.add_middleware(UnexpectedErrors)


def error_answer(
    status: int, message: str | None, headers: dict[str, str] | None = None, *, request: Request | None = None
) -> Response:
    """Return an answer without the secrets that this process knows (E11), except what the request said itself."""
    if message is not None:
        message = hide(message) if request is None else without_secrets(message, request)
    return json_response({"error_code": status, "message": message}, status, headers)


def status_of(error: OperationError) -> int:
    """Return the HTTP status of an error. A class that is not in the table has the status of its nearest ancestor."""
    return next(_STATUS_OF[cls] for cls in type(error).__mro__ if cls in _STATUS_OF)


async def _operation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, OperationError)
    return error_answer(status_of(error), error.message, request=request)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers) if error.headers else None
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers = {"allow": ", ".join(_methods(request))}
    return error_answer(error.status_code, _framework_text(error.status_code), headers)


def _methods(request: Request) -> list[str]:
    """Return the methods of a path. The framework knows those of one route, but here each method has its own route."""
    routes = [one for one in request.app.state.routes if one.matches(request.scope)[0] is not Match.NONE]
    methods = {method for route in routes for method in route.methods}
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))


async def _unfit_path(_: Request, __: Exception) -> Response:
    # Only path parameters are declared with a type that a request can miss (a task id that is no number).
    return error_answer(404, _framework_text(404))


def _framework_text(status: int) -> str:
    return f"HTTP {status} {HTTPStatus(status).phrase}"


class UnexpectedErrors:
    """Answers 500 to unexpected exceptions, and logs them.

    Only the log gets an exception's text, which was not written for users and may contain a secret (E11).
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_started = False

        async def watch(message: Message) -> None:
            nonlocal is_started
            is_started = is_started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except ClientDisconnect:
            log.debug("client left before its request was complete")
        except Exception as error:
            if is_started or scope["type"] != "http":
                raise
            log.exception("request %s %s failed", scope["method"], scope["path"])
            text = f"Unexpected {type(error).__name__}; the log of this worker has the details."
            await error_answer(500, text)(scope, receive, send)
