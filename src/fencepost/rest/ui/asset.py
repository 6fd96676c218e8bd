"""Files that pages name: styles, scripts and the icon. Their addresses change with their content."""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILES = Path(__file__).parent / "asset"

_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file; `version` is a digest of its content."""

    content: bytes
    media_type: str
    version: str


@cache
def assets() -> dict[str, Asset]:
    """Return the files by name."""
    return {path.name: _read(path) for path in sorted(FILES.iterdir()) if path.suffix in _TYPES}


def asset_url(name: str) -> str:
    """Return the address of a file; KeyError if there is none of that name."""
    return f"/ui/assets/{name}?v={assets()[name].version}"


def _read(path: Path) -> Asset:
    content = path.read_bytes()
    return Asset(content, _TYPES[path.suffix], hashlib.sha256(content).hexdigest()[:12])
