"""SimpleHeaderConverter: header values as text from which the type can be inferred."""

import base64
import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

from fencepost.api import HeaderConverter, RecordError, Schema, SchemaType
from fencepost.record.java_text import java_text
from fencepost.record.java_utf8 import java_decoded
from fencepost.record.literal import parsed_literal


class SimpleHeaderConverter(HeaderConverter):
    """Writes text unchanged and other values as literals; reads literals back, and anything else as text."""

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        try:
            return None if value is None else _text(schema, value, is_inside=False).encode("utf-8", "replace")
        except RecursionError:
            raise RecordError(f"The value of the header {key} is nested too deeply for a text") from None

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is None:
            return None, None
        return parsed_literal(java_decoded(data))


def _text(schema: Schema | None, value: Any, *, is_inside: bool) -> str:
    if isinstance(value, str):
        return _quoted(value) if is_inside else value
    if isinstance(value, bytes | bytearray | memoryview):
        text = base64.b64encode(value).decode("ascii")
        return f'"{text}"' if is_inside else text
    if isinstance(value, Mapping):
        return "{" + ",".join(_pairs(schema, value)) + "}"
    if isinstance(value, list | tuple):
        of_item = None if schema is None else schema.value_schema
        return "[" + ",".join(_text(of_item, item, is_inside=True) for item in value) + "]"
    if isinstance(value, dt.date | dt.time):
        return _moment(value)
    return java_text(schema, value)


def _pairs(schema: Schema | None, value: Mapping[Any, Any]) -> Iterator[str]:
    if schema is not None and schema.type is SchemaType.STRUCT:
        for field in schema.fields:
            member = value.get(field.name)
            text = _text(field.schema, field.schema.default if member is None else member, is_inside=True)
            yield f"{_quoted(field.name)}:{text}"
        return
    of_key, of_item = (None, None) if schema is None else (schema.key_schema, schema.value_schema)
    for key, item in value.items():
        yield f"{_text(of_key, key, is_inside=True)}:{_text(of_item, item, is_inside=True)}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _moment(value: dt.date | dt.time) -> str:
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
        moment = aware.astimezone(dt.UTC)
        return f"{moment.year:04d}{moment:-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
    if isinstance(value, dt.time):
        return value.strftime("%H:%M:%S.") + f"{value.microsecond // 1000:03d}Z"
    return value.isoformat()
