"""Literals of values in text: of headers, and in the config of a transform."""

import datetime as dt
import json
import math
from decimal import Decimal, InvalidOperation
from typing import Any

from fencepost.record.java_integer import INTEGER_BITS, fits
from fencepost.record.schema import BOOLEAN, DATE, FLOAT64, STRING, TIME, TIMESTAMP, Schema

_MOST_DIGITS = 20  # more than 64 bits hold
_TIME_LENGTH, _TIMESTAMP_LENGTH = len("03:04:05.678Z"), len("2026-01-02T03:04:05.678Z")


def parsed_literal(text: str) -> tuple[Schema | None, Any]:
    """Return the value that a text stands for, as Kafka's `Values.parseString` infers it; a text by default."""
    try:
        return _parsed(text)
    except (ValueError, RecursionError):
        return STRING, text


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
    for kind, bits in INTEGER_BITS.items():
        if fits(number, bits):
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
        return TIMESTAMP, moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    if text.endswith("Z"):
        return TIME, dt.datetime.strptime(text, "%H:%M:%S.%fZ").time()
    return DATE, dt.date.fromisoformat(text)
