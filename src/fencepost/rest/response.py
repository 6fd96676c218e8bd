"""Answers as JSON, and their header of warnings about keys of a connector's config."""

import json
from collections.abc import Sequence
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from typing import Any

import orjson
from pydantic import TypeAdapter
from starlette.responses import Response

from fencepost.cluster.info import KeyWarning


def json_response(content: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return an answer that nobody on the way keeps: it may have configs."""
    kept = {"cache-control": "no-store", **(headers or {})}
    return Response(to_json(content), status, kept, media_type="application/json")


def empty_response(status: int) -> Response:
    return Response(status_code=status)


def to_json(content: object) -> bytes:
    """Render plain values and those of `cluster/info.py`, also inside lists and dicts."""
    try:
        return orjson.dumps(content, _plain, orjson.OPT_PASSTHROUGH_DATACLASS)
    except TypeError:
        # A trace may hold lone surrogates (a file name that is not UTF-8), which orjson refuses.
        return json.dumps(content, default=_plain).encode("ascii")


def _plain(value: object) -> Any:
    if isinstance(value, Enum):
        return value.value
    if not is_dataclass(value):
        raise TypeError(f"{type(value).__name__} cannot be written as JSON")
    kind: type = type(value)
    return _adapter(kind).dump_python(value, by_alias=True, warnings=False)


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


WARNINGS = "fencepost-warnings"
_MOST_CHARACTERS = 4000  # many servers and clients refuse headers of 8 KB


def warning_header(warnings: Sequence[KeyWarning]) -> dict[str, str]:
    """Return the header: a JSON list of texts, in ASCII; no header if there are no warnings."""
    texts = [one.message for one in warnings]
    while texts and len(json.dumps(texts)) > _MOST_CHARACTERS:
        texts = [*texts[:-2], f"{len(warnings) - len(texts) + 2} more"]
    return {WARNINGS: json.dumps(texts)} if texts else {}
