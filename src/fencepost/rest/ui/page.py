"""Pages and pieces of them, from templates: the files that they name, how they write numbers, and errors as pages."""

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from markupsafe import Markup
from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fencepost.rest.ui.inside import path_of
from fencepost.telemetry.traces import reason_in

if TYPE_CHECKING:
    from jinja2 import Environment

NOTHING = "–"

_WORDS = re.compile(r"(?<=\.)(?!$)|(?<=[a-z0-9])(?=[A-Z])|(?<=[-_/])(?!$)")

_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_BYTES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_SPANS = ((86_400, "d"), (3_600, "h"), (60, "min"))
_TONES = {
    "RUNNING": "good",
    "PAUSED": "calm",
    "STOPPED": "calm",
    "FAILED": "bad",
    "UNASSIGNED": "warn",
    "RESTARTING": "warn",
    "RETRYING": "warn",
    "DESTROYED": "calm",
    "STANDS STILL": "bad",
}


def count(value: float | None) -> str:
    """Return a number of things in at most four digits: 1234567 is 1.23 M."""
    if value is None:
        return NOTHING
    for size, unit in _UNITS:
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}" if abs(value) < 1000 * size else f"{value / size:,.0f} {unit}"
    return f"{value:,.0f}"


def rate(value: float | None) -> str:
    """Return records a second."""
    if value is None:
        return NOTHING
    return f"{value:.2g} /s" if 0 < value < 10 else f"{count(value)} /s"


def size(value: float | None) -> str:
    """Return bytes."""
    if value is None:
        return NOTHING
    for unit_bytes, unit in _BYTES:
        if value >= unit_bytes:
            return f"{value / unit_bytes:,.0f} {unit}"
    return f"{value:,.0f} B"


def span(seconds: float | None) -> str:
    """Return a length of time in its largest unit."""
    if seconds is None:
        return NOTHING
    for unit_s, unit in _SPANS:
        if seconds >= unit_s:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def age(at_ms: float | None) -> str:
    """Return how long ago a moment was."""
    return NOTHING if not at_ms else span(time.time() - at_ms / 1000)


def moment(at_ms: float | None) -> str:
    """Return a moment in UTC."""
    return NOTHING if not at_ms else time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at_ms / 1000))


def tone(state: str) -> str:
    """Return how a state is coloured: good, calm, warn or bad."""
    return _TONES.get(state, "warn")


def json_text(value: object) -> str:
    """Return a text as it is, and anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def words(name: str) -> Markup:
    """Return a name as markup that breaks a line after dots and in front of words, such as those of a class."""
    return Markup("<wbr>").join(_WORDS.split(name))


FILTERS: Mapping[str, Callable[..., Any]] = {
    "count": count,
    "rate": rate,
    "size": size,
    "span": span,
    "age": age,
    "moment": moment,
    "tone": tone,
    "json_text": json_text,
    "reason": reason_in,
    "words": words,
}


FILES = Path(__file__).parent / "asset"

_MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file; `version` is a digest of its content."""

    content: bytes
    media_type: str
    version: str


@cache
def assets() -> dict[str, Asset]:
    """Return the files by name."""
    return {path.name: _read(path) for path in sorted(FILES.iterdir()) if path.suffix in _MEDIA_TYPES}


def asset_url(name: str) -> str:
    """Return the address of a file; KeyError if there is none of that name."""
    return f"/ui/assets/{name}?v={assets()[name].version}"


def _read(path: Path) -> Asset:
    content = path.read_bytes()
    return Asset(content, _MEDIA_TYPES[path.suffix], hashlib.sha256(content).hexdigest()[:12])


TEMPLATES = Path(__file__).parent / "template"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    "referrer-policy": "same-origin",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
}


def html_response(text: str, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a page with the headers of all pages. Texts of other systems may hold what is no character."""
    content = text.encode("utf-8", "backslashreplace")
    return Response(content, status, _HEADERS | (headers or {}), media_type="text/html; charset=utf-8")


def render(template: str, **content: Any) -> str:
    """Return the text of a template, in which everything that is not markup of its own is escaped."""
    return environment().get_template(template).render(**content)


@cache
def environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # takes 0.1 s, and only the UI needs it

    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals |= {"asset": asset_url, "path_of": path_of}
    made.filters |= FILTERS
    return made


_JSON = "application/json"
_KEPT = ("www-authenticate", "retry-after", "allow")


class ErrorPages:
    """Turns REST's errors into pages, below `/ui` alone, whatever layer has answered."""

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
