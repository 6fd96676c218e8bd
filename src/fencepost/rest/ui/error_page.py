"""Errors of `/ui` as pages: whatever layer has answered, a browser shows a page that says what failed."""

from http import HTTPStatus
from typing import Any

import orjson
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fencepost.rest.ui.page import html_response, render

_JSON = "application/json"
_KEPT = ("www-authenticate", "retry-after", "allow")


class ErrorPages:
    """Turns REST's errors into pages, below `/ui` alone."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_of_ui(scope["path"]):
            await self._app(scope, receive, send)
            return
        held: Message | None = None
        body = bytearray()

        async def watch(message: Message) -> None:
            nonlocal held
            if message["type"] == "http.response.start" and _is_error(message):
                held = message
            elif held is None:
                await send(message)
            else:
                body.extend(message.get("body", b""))
                if not message.get("more_body"):
                    await _page(held, bytes(body))(scope, receive, send)

        await self._app(scope, receive, watch)


def is_of_ui(path: str) -> bool:
    return path == "/ui" or path.startswith("/ui/")


def _is_error(start: Message) -> bool:
    headers = MutableHeaders(raw=list(start.get("headers", ())))
    return start["status"] >= 400 and headers.get("content-type", "").startswith(_JSON)


def _page(start: Message, body: bytes) -> Any:
    status, headers = start["status"], MutableHeaders(raw=list(start.get("headers", ())))
    message = orjson.loads(body).get("message") or ""
    text = render("error.html", title=HTTPStatus(status).phrase, status=status, message=message, user=None, place="")
    return html_response(text, status, {name: headers[name] for name in _KEPT if name in headers})
