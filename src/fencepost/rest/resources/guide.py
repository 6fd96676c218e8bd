"""`/docs/guide`: the pages of the documentation, as they are in the package."""

import base64
import hashlib
import re
from pathlib import Path
from urllib.parse import unquote

import anyio.to_thread
from fastapi import APIRouter
from starlette.responses import RedirectResponse, Response

from fencepost.cluster.errors import NotFoundError
from fencepost.guide import NO_PAGES, SITE

router = APIRouter(prefix="/docs/guide", include_in_schema=False)

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


@router.get("")
async def get_guide() -> Response:
    return RedirectResponse(f"{router.prefix}/{_FIRST}")


@router.get("/{file:path}")
async def get_guide_file(file: str) -> Response:
    """Answer with a file of the site. Its pages may run their own scripts, and load nothing from elsewhere."""
    path = await anyio.to_thread.run_sync(_found, unquote(file))
    content = await anyio.to_thread.run_sync(path.read_bytes)
    headers = {"content-security-policy": _policy(content), "cache-control": "private, max-age=300"}
    return Response(content, media_type=_TYPES[path.suffix], headers=headers)


def _found(file: str) -> Path:
    """Return one of the files that there are: a path from outside is compared, never followed."""
    files = {path.relative_to(SITE).as_posix(): path for path in SITE.rglob("*") if path.suffix in _TYPES}
    if file not in files:
        raise NotFoundError(f"The guide has no file {file}" if files else NO_PAGES)
    return files[file]


def _policy(page: bytes) -> str:
    digests = {base64.b64encode(hashlib.sha256(script).digest()).decode() for script in _INLINE.findall(page)}
    inline = "".join(f" 'sha256-{digest}'" for digest in sorted(digests))
    return (
        f"default-src 'none'; script-src 'self'{inline}; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "worker-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )
