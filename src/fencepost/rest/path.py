"""Connector names in paths: percent-encoded until the route is found, decoded afterwards.

A name may hold `/`, `%`, spaces or `;`. Servers decode the path before routing, after which `a%2Fb` and `a/b`
look the same; so routing here sees the path as it was sent.
"""

from typing import Annotated
from urllib.parse import quote, unquote

from fastapi import Path, Query
from pydantic import AfterValidator, BeforeValidator, WithJsonSchema
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

PathText = Annotated[str, Path(), AfterValidator(unquote)]
ConnectorName = Annotated[str, Path(description="Connector name, percent-encoded."), AfterValidator(unquote)]
TaskNumber = Annotated[int, Path(ge=0, description="Number of the task, from 0.")]


def connector_location(name: str) -> str:
    """Path of a connector, as the Location header gives it."""
    return "/connectors/" + quote(name, safe="")


def sent_path(scope: Scope) -> str:
    """Path of a request as it was sent, for logs."""
    return scope.get("raw_path", b"").decode("latin-1") or str(scope["path"])


def signed_target(request: Request) -> str:
    """Path and query as they were sent, which other workers sign."""
    path: str = request.scope.get("raw_path", b"").decode("latin-1")
    return f"{path}?{request.url.query}" if request.url.query else path


class EncodedPath:
    """Puts the path as it was sent before the router, without a trailing slash, and HEAD as GET."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = dict(scope)
            scope["path"] = _routed(scope)
            if scope["method"] == "HEAD":
                # The server leaves out the body: it looks at the request that it read itself.
                scope["method"] = "GET"
        await self._app(scope, receive, send)


def _routed(scope: Scope) -> str:
    raw = scope.get("raw_path")
    path: str = quote(scope["path"]) if raw is None else raw.decode("latin-1")
    if "%" in path:
        # Encoded letters in fixed segments ("connector%73") are the same resource.
        path = "/".join(quote(unquote(segment), safe="") for segment in path.split("/"))
    return path if path == "/" else path.removesuffix("/")


def _is_true(value: object) -> bool:
    # As Java's Boolean.valueOf: clients send True and False, and anything else is false.
    return value is True or str(value).strip().lower() == "true"


_FLAG = (
    BeforeValidator(_is_true),
    WithJsonSchema(
        {
            "anyOf": [{"type": "boolean"}, {"type": "string"}],
            "description": "true, in any case of letters; anything else is false.",
        }
    ),
)

Expand = Annotated[
    list[str] | None,
    Query(description="status, info, figures; repeatable. Other words are ignored."),
    WithJsonSchema({"type": "array", "items": {"type": "string"}}),
]
IncludeTasks = Annotated[bool, Query(alias="includeTasks"), *_FLAG]
OnlyFailed = Annotated[bool, Query(alias="onlyFailed"), *_FLAG]
ConnectorsOnly = Annotated[bool, Query(alias="connectorsOnly"), *_FLAG]
PluginVersion = Annotated[
    str | None,
    Query(description="A version, or a range such as [1.0,2.0); without it, or with latest: the newest installed."),
    WithJsonSchema({"type": "string"}),
]
Dry = Annotated[bool, Query(), *_FLAG]
