"""`/openapi.json` and `/docs`: a page that lists the operations, rendered here, with nothing from elsewhere."""

from collections.abc import Iterator
from html import escape
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from fencepost.rest.response import json_response

router = APIRouter(include_in_schema=False)

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h2 { margin: 2rem 0 .5rem; text-transform: capitalize }
table { border-collapse: collapse; width: 100% }
td { border-top: 1px solid #ccc; padding: .35rem .75rem .35rem 0; vertical-align: top }
code { font-size: 13px; white-space: nowrap }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


@router.get("/openapi.json")
async def get_openapi(request: Request) -> Response:
    return json_response(request.app.openapi())


@router.get("/docs")
async def get_docs(request: Request) -> Response:
    return HTMLResponse(render_page(request.app.openapi()), headers={"content-security-policy": _POLICY})


def render_page(document: dict[str, Any]) -> str:
    """Return an HTML page of an OpenAPI document: per tag, a row per operation with its parameters and answers."""
    title = escape(document["info"]["title"])
    sections = "".join(_section(tag, list(rows)) for tag, rows in _by_tag(document).items())
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


def _section(tag: str, rows: list[str]) -> str:
    return f"<h2>{escape(tag)}</h2><table>{''.join(rows)}</table>"


def _row(method: str, path: str, operation: dict[str, Any]) -> str:
    answers = ", ".join(code for code in operation["responses"] if code != "default")
    return (
        f"<tr><td><code><b>{method.upper()}</b> {escape(path)}{escape(_query(operation))}</code></td>"
        f"<td>{escape(operation.get('description', ''))}</td><td>{escape(answers)}</td></tr>"
    )


def _query(operation: dict[str, Any]) -> str:
    names = list(_query_names(operation))
    return f"?{'&'.join(f'{name}=' for name in names)}" if names else ""


def _query_names(operation: dict[str, Any]) -> Iterator[str]:
    return (item["name"] for item in operation.get("parameters", ()) if item["in"] == "query")
