"""Answers as JSON."""

import json
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from typing import Any

import orjson
from pydantic import TypeAdapter
from starlette.responses import Response


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
