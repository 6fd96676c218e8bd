"""Pages and pieces of them, from templates."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from fencepost.rest.ui import show
from fencepost.rest.ui.asset import asset_url
from fencepost.rest.ui.inside import path_of

if TYPE_CHECKING:
    from jinja2 import Environment

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
    made.filters |= show.FILTERS
    return made
