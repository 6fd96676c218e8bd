"""SimpleHeaderConverter: header values as text from which the type can be inferred."""

import base64
import datetime as dt
import json
import math
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from fencepost.api import HeaderConverter, Schema
from fencepost.converter.logical import EPOCH, MILLISECOND
from fencepost.record import SchemaType
from fencepost.record.schema import BOOLEAN, DATE, FLOAT64, STRING, TIME, TIMESTAMP

_MOST_DIGITS = 20  # more than 64 bits hold
_TIME_LENGTH, _TIMESTAMP_LENGTH = len("03:04:05.678Z"), len("2026-01-02T03:04:05.678Z")
_INTEGERS = ((SchemaType.INT8, 7), (SchemaType.INT16, 15), (SchemaType.INT32, 31), (SchemaType.INT64, 63))


class SimpleHeaderConverter(HeaderConverter):
    """Writes text unchanged and other values as literals; reads literals back, and anything else as text."""

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        return None if value is None else _text(value, is_inside=False).encode("utf-8", "replace")

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is None:
            return None, None
        text = data.decode("utf-8", "replace")
        try:
            return _parsed(text)
        except (ValueError, RecursionError):
            return STRING, text


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


def _parsed(text: str) -> tuple[Schema | None, Any]:
    """Raise ValueError for anything that is not a literal."""
    if text in ("null", "true", "false"):
        return (None, None) if text == "null" else (BOOLEAN, text == "true")
    if text[:1] in ("[", "{"):
        return None, json.loads(text)
    if text[:1] in "+-.0123456789" and text.isascii() and text == text.strip() and "_" not in text:
        return _number_or_moment(text)
    return STRING, text


def _number_or_moment(text: str) -> tuple[Schema | None, Any]:
    if text.endswith("Z") or text.count("-") == 2:
        return _parsed_moment(text)
    exact = _decimal(text)
    if exact != exact.to_integral_value():
        return FLOAT64, _finite(text)
    if exact.adjusted() > _MOST_DIGITS:
        return STRING, text
    number = int(exact)
    for kind, bits in _INTEGERS:
        if -(1 << bits) <= number < 1 << bits:
            return Schema(kind), number
    return STRING, text


def _decimal(text: str) -> Decimal:
    """Raise ValueError for anything that is not a number to Kafka, which requires a digit before the point."""
    if text.lstrip("+").startswith("."):
        raise ValueError(text)
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise ValueError(text) from error


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(text)
    return number


def _parsed_moment(text: str) -> tuple[Schema | None, Any]:
    if text.endswith("Z") and len(text) not in (_TIME_LENGTH, _TIMESTAMP_LENGTH):
        raise ValueError(text)  # a fraction of a second with another number of digits than Kafka Connect writes
    if "T" in text:
        moment = dt.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=dt.UTC)
        return TIMESTAMP, EPOCH + (moment - EPOCH) // MILLISECOND * MILLISECOND
    if text.endswith("Z"):
        return TIME, dt.datetime.strptime(text, "%H:%M:%S.%fZ").time()
    return DATE, dt.date.fromisoformat(text)
