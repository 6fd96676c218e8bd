"""`/openapi.json`, and the pages at `/docs` and `/docs/guide`: with nothing from elsewhere."""

import base64
import hashlib
import re
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import anyio.to_thread
from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from fencepost.cluster.errors import NotFoundError
from fencepost.guide import NO_PAGES, SITE
from fencepost.rest.response import json_response

document = APIRouter(include_in_schema=False)

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h2 { margin: 2rem 0 .5rem; text-transform: capitalize }
table { border-collapse: collapse; width: 100% }
td { border-top: 1px solid #ccc; padding: .35rem .75rem .35rem 0; vertical-align: top }
code { font-size: 13px; white-space: nowrap }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


@document.get("/openapi.json")
async def get_openapi(request: Request) -> Response:
    return json_response(request.app.openapi())


@document.get("/docs")
async def get_docs(request: Request) -> Response:
    return HTMLResponse(render_page(request.app.openapi()), headers={"content-security-policy": _POLICY})


def render_page(document: dict[str, Any]) -> str:
    """Return an HTML page of an OpenAPI document: per tag, a row per operation with its parameters and answers."""
    title = escape(document["info"]["title"])
    sections = "".join(
        f"<h2>{escape(tag)}</h2><table>{''.join(rows)}</table>" for tag, rows in _by_tag(document).items()
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{title} {escape(document['info']['version'])}</h1>"
        f'<p>{escape(document["info"]["description"])} <a href="openapi.json">openapi.json</a> · '
        '<a href="/docs/guide">Guide</a></p>'
        f"{sections}</body></html>"
    )


def _by_tag(document: dict[str, Any]) -> dict[str, list[str]]:
    rows: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            rows.setdefault(operation["tags"][0], []).append(_row(method, path, operation))
    return rows


def _row(method: str, path: str, operation: dict[str, Any]) -> str:
    answers = ", ".join(code for code in operation["responses"] if code != "default")
    return (
        f"<tr><td><code><b>{method.upper()}</b> {escape(path)}{escape(_query(operation))}</code></td>"
        f"<td>{escape(operation.get('description', ''))}</td><td>{escape(answers)}</td></tr>"
    )


def _query(operation: dict[str, Any]) -> str:
    names = [item["name"] for item in operation.get("parameters", ()) if item["in"] == "query"]
    return f"?{'&'.join(f'{name}=' for name in names)}" if names else ""


guide = APIRouter(prefix="/docs/guide", include_in_schema=False)

_FIRST = "index.html"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}
_INLINE = re.compile(rb"<script>(.*?)</script>", re.DOTALL)


@guide.get("")
async def get_guide() -> Response:
    return RedirectResponse(f"{guide.prefix}/{_FIRST}")


@guide.get("/{file:path}")
async def get_guide_file(file: str) -> Response:
    """Answer with a file of the site. Its pages may run their own scripts, and load nothing from elsewhere."""
    path = await anyio.to_thread.run_sync(_found, unquote(file))
    content = await anyio.to_thread.run_sync(path.read_bytes)
    headers = {"content-security-policy": _policy_of(content), "cache-control": "private, max-age=300"}
    return Response(content, media_type=_TYPES[path.suffix], headers=headers)


def _found(file: str) -> Path:
    """Return one of the files that there are: a path from outside is compared, never followed."""
    files = {path.relative_to(SITE).as_posix(): path for path in SITE.rglob("*") if path.suffix in _TYPES}
    if file not in files:
        raise NotFoundError(f"The guide has no file {file}" if files else NO_PAGES)
    return files[file]


def _policy_of(page: bytes) -> str:
    digests = {base64.b64encode(hashlib.sha256(script).digest()).decode() for script in _INLINE.findall(page)}
    inline = "".join(f" 'sha256-{digest}'" for digest in sorted(digests))
    return (
        f"default-src 'none'; script-src 'self'{inline}; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "worker-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )
