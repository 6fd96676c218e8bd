"""What a request said itself: an error that repeats it shows it as it came, whether or not it is a secret elsewhere.

If it were hidden only when it is one, whoever may send a request could guess the passwords of others (E11). A value
whose key is that of a secret is never shown.
"""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, unquote

from starlette.requests import Request

from fencepost.redaction import HIDDEN
from fencepost.rest.kept_body import kept_body
from fencepost.secret_name import is_secret_name
from fencepost.telemetry.secret import Secrets, hide


def without_secrets(message: str, request: Request) -> str:
    """Return an error about a request without secrets, except what the request said."""
    own, shown = Secrets(), [request.scope["path"], unquote(request.scope["path"]), unquote(request.url.query)]
    for key, text in _sent(kept_body(request) or b""):
        if is_secret_name(key) and text != HIDDEN:
            own.remember(text)
        else:
            shown += (key, text)
    return hide(own.hide(message), unless_in="\n".join(shown))


def _sent(body: bytes) -> Iterator[tuple[str, str]]:
    """Yield the texts in a body with their keys."""
    text = body.decode(errors="replace")
    try:
        yield from _texts("", json.loads(text, parse_int=str, parse_float=str))
    except (ValueError, RecursionError):
        yield "", text
        yield from parse_qsl(text)


def _texts(key: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield key, name
            yield from _texts(name, each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(key, each)
    elif isinstance(value, str):
        yield key, value
