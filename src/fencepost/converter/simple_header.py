"""SimpleHeaderConverter: header values as text from which the type can be inferred."""

import base64
import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from fencepost.api import HeaderConverter, RecordError, Schema
from fencepost.record.java_utf8 import java_decoded
from fencepost.record.literal import parsed_literal


class SimpleHeaderConverter(HeaderConverter):
    """Writes text unchanged and other values as literals; reads literals back, and anything else as text."""

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        try:
            return None if value is None else _text(value, is_inside=False).encode("utf-8", "replace")
        except RecursionError:
            raise RecordError(f"The value of the header {key} is nested too deeply for a text") from None

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is None:
            return None, None
        return parsed_literal(java_decoded(data))


def _text(value: Any, *, is_inside: bool) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' if is_inside else value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Mapping):
        pairs = (f"{_text(k, is_inside=True)}:{_text(v, is_inside=True)}" for k, v in value.items())
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(_text(item, is_inside=True) for item in value) + "]"
    if isinstance(value, dt.date | dt.time):
        return _moment(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    return "null" if value is None else str(value)


def _moment(value: dt.date | dt.time) -> str:
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
        return aware.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{aware.microsecond // 1000:03d}Z"
    if isinstance(value, dt.time):
        return value.strftime("%H:%M:%S.") + f"{value.microsecond // 1000:03d}Z"
    return value.isoformat()
