"""REST requests that a page sends within the process: as its caller, with everything that REST checks and forwards."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from starlette.datastructures import State
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fencepost.rest.forwarding import FORWARD
from fencepost.rest.response import error_answer, to_json

_SHARED = ("type", "asgi", "http_version", "scheme", "server", "client", "root_path", "state", "app")


class RestRefusedError(Exception):
    """REST has answered a page's request with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class Answer:
    """What REST answers: success or not."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_success(self) -> bool:
        return self.status < 400

    @property
    def content(self) -> Any:
        """Return the JSON; None if there is no body.

        Python's own parser reads integers of any size and lone surrogates. orjson does not, and to search for these
        first takes longer than it saves.
        """
        return json.loads(self.body) if self.body else None

    @property
    def message(self) -> str:
        """Return the text of an error."""
        found = self.content
        return str(found.get("message")) if isinstance(found, dict) else f"HTTP {self.status}"


class Inside:
    """The innermost layer: keeps the application that it is around, which has no more questions to a known caller."""

    def __init__(self, app: ASGIApp, state: State) -> None:
        self._app = state.inside = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def path_of(*segments: object) -> str:
    """Return the path of these segments, each percent-encoded."""
    return "/" + "/".join(quote(str(segment), safe="") for segment in segments)


async def ask(
    request: Request, method: str, path: str, *, query: Mapping[str, object] | None = None, body: object = None
) -> Answer:
    """Return REST's answer to a request of the caller of `request`. `body` is sent as JSON."""
    sent = b"" if body is None else to_json(body)
    scope = _scope(request.scope, method, path, urlencode(query or {}, doseq=True), is_with_body=body is not None)
    status, headers, received = 500, dict[str, str](), bytearray()

    async def receive() -> Message:
        return {"type": "http.request", "body": sent, "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status = message["status"]
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in message.get("headers", ())}
        elif message["type"] == "http.response.body":
            received.extend(message.get("body", b""))

    await request.app.state.inside(scope, receive, send)
    return Answer(status, headers, bytes(received))


async def ask_for(
    request: Request, method: str, path: str, *, query: Mapping[str, object] | None = None, body: object = None
) -> Any:
    """Return the JSON of REST's answer. Raises RestRefusedError if it is an error."""
    answer = await ask(request, method, path, query=query, body=body)
    if not answer.is_success:
        raise RestRefusedError(answer.status, answer.message)
    return answer.content


async def refusal_answer(request: Request, error: Exception) -> Any:
    """Answer as REST has answered the request within."""
    assert isinstance(error, RestRefusedError)
    return error_answer(error.status, error.message, request=request)


def _scope(outer: Scope, method: str, path: str, query: str, *, is_with_body: bool) -> dict[str, Any]:
    assert FORWARD not in query
    headers = [(b"accept", b"application/json")]
    if is_with_body:
        headers.append((b"content-type", b"application/json"))
    return {key: outer[key] for key in _SHARED if key in outer} | {
        "method": method,
        "path": path,
        "raw_path": path.encode("ascii"),
        "query_string": query.encode("ascii"),
        "headers": headers,
    }
